from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import psutil
import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.models.embedded.embedded_server import CHILD, Engine, prompt_caches_dir
from tests.sets import for_each

READY = """
import json, os, sys
order = json.loads(sys.stdin.readline())
open(sys.argv[1], "w").write(json.dumps(order | {"environment": dict(os.environ), "pid": os.getpid()}))
print(json.dumps({"url": "http://127.0.0.1:5"}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-q4.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    started: list[Engine] = []
    yield started
    for engine in started:
        engine.stop()


def engine_of(engines: list[Engine], model: Path, script: str, *arguments: str, window_tokens: int = 0) -> Engine:
    engine = Engine(model, window_tokens, command=(sys.executable, "-c", script, *arguments))
    engines.append(engine)
    return engine


def test_the_child_gets_its_order_and_key_on_its_input_alone(
    engines: list[Engine], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    engine = engine_of(engines, model, READY, str(tmp_path / "order"), window_tokens=4096)
    engine.start()
    order = json.loads((tmp_path / "order").read_text())
    assert engine.url == "http://127.0.0.1:5"
    assert (order["path"], order["name"], order["window_tokens"]) == (str(model), "tiny-q4", 4096)
    assert order["key"] == engine.key
    folder = Path(order["slot_folder"])
    assert (folder, folder.stat().st_mode & 0o777) == (prompt_caches_dir(), 0o700)
    assert len(engine.key) >= 24
    assert "sk-canary" not in order["environment"].values()
    assert engine.key not in order["environment"].values()


@for_each(("script", "words", "hint"), [
    (
        'import sys; sys.stderr.write("x: failed to load model\\n"); print("{\\"error\\": \\"RuntimeError\\"}")',
        "failed to load", "GGUF",
    ),
    ('print("{\\"error\\": \\"no such thing\\"}")', "no such thing", "GGUF"),
    ("raise SystemExit(3)", "its process ended", "GGUF"), ('print("[]")', "its process ended", "GGUF"),
    ('print("not json")', "its process ended", "GGUF"),
    ('print("{\\"error\\": \\"xllamacpp is not installed\\"}")', "wheel is needed", "lmtui[embedded]"),
])  # fmt: skip
def test_a_file_that_does_not_run_says_why(engines: list[Engine], model: Path, script: str, words: str, hint: str) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        engine_of(engines, model, script).start()
    assert hint in caught.value.hint


async def test_a_stop_ends_the_child_and_a_start_that_is_given_up_leaves_none(
    engines: list[Engine], model: Path, tmp_path: Path
) -> None:
    engine = engine_of(engines, model, READY, str(tmp_path / "order"))
    assert [step.ratio async for step in engine.starting()]
    assert engine.url
    pid = json.loads((tmp_path / "order").read_text())["pid"]
    assert os.getpgid(pid) != os.getpgid(0), "what the terminal sends to lmtui does not reach it"
    assert engine.key != Engine(model).key
    engine.stop()
    engine.stop()
    assert engine.url == ""
    assert not psutil.pid_exists(pid)
    script = f'import os, time; open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid())); time.sleep(600)'
    engine = engine_of(engines, model, script)
    async with aclosing(engine.starting()) as steps:
        async for step in steps:
            assert step.text.startswith("starting tiny-q4, ")
            if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
                break
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@contextmanager
def real_child(model: Path, *flags: str, python_path: str = "") -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Run the child's own program with an order, its input open, and yield it with its answer."""
    order = {"path": str(model), "key": "k", "name": "n", "window_tokens": 512, "threads": 1, "slot_folder": "s/"}
    child = subprocess.Popen(
        [sys.executable, "-P", *flags, str(CHILD)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": python_path}, text=True,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        child.stdin.write(json.dumps(order) + "\n")
        child.stdin.flush()
        yield child, json.loads(child.stdout.readline())
    child.kill()
    _ = child.wait(10)


def test_a_file_that_is_not_there_or_a_wheel_that_is_missing_is_told_at_once(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ProviderError, match="no model file") as caught:
        Engine(tmp_path / "gone.gguf").start()
    assert caught.value.fault is Fault.UNKNOWN_MODEL
    with real_child(model, "-S") as (child, answer):
        assert "not installed" in answer["error"]
        assert child.wait(10) == 1


def test_the_real_child_ends_when_its_input_does(model: Path, tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(
        "class Part: pass\n"
        "class CommonParams:\n"
        "    def __init__(self):\n"
        "        self.model, self.cpuparams, self.cpuparams_batch = Part(), Part(), Part()\n"
        "class Server:\n"
        "    def __init__(self, parameters): self.listening_address = 'http://127.0.0.1:5/' + parameters.api_keys[0]\n"
    )
    with real_child(model, python_path=str(tmp_path)) as (child, answer):
        assert answer == {"url": "http://127.0.0.1:5/k"}
        assert child.poll() is None
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(10) == 0
