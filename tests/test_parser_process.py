from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from lmtui.config import load_config
from lmtui.core.errors import ConfigError
from lmtui.engine.syntax import parse_error, python_tree, syntax_error
from lmtui.features.checks import validators
from lmtui.parser_process import TooComplex, parsed, parser_apart, toml
from tests.sets import depth, for_each


def nested_try(levels: int) -> str:
    """Compiling this takes twice as long with each level."""
    return "".join(f"{' ' * level}try: x\n{' ' * level}finally:\n" for level in range(levels)) + f"{' ' * levels}x\n"


UNIQUE = json.dumps({"$schema": "s.json", "a": [{"b": number} for number in range(800)]})
VALUES = [{"b": [number]} for number in range(300)]
SCHEMA = json.dumps({"properties": {"a": {"uniqueItems": True, "items": {"enum": VALUES}}}})
LARGE = {
    "a.py": nested_try(28), "b.py": nested_try(19), "parens.py": "(" * 199 + "x" + ")" * 199,
    "lambdas.py": "lambda: " * 5_000 + "x", "minus.py": "x = " + "-" * 90_000 + "1",
    "decorators.py": "@x\n" * 90_000 + "def f(): 0\n", "fstrings.py": "f'" + '{f"' * 40 + "x",
    "b.toml": "a." * 200_000 + "b = 1", "c.toml": "[a]\n" + "[[a.b]]\n" * 60_000,
    "a.json": "[" * 400_000, "b.json": '{"a": ' + "9" * 900_000 + "}", "a.yaml": "[" * 60_000,
    "b.yaml": "a: &a [x]\n" + "\n".join(f"k{n}: [{'*a, ' * 90}]" for n in range(900)),
    "c.yaml": "? " * 60_000, "a.xml": "<a>" * 200_000,
    "b.xml": "<!DOCTYPE a [" + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 9)) + "]><a>&a8;</a>",
}  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit memory")
def test_the_process_has_little_time_and_memory_and_writes_no_file() -> None:
    limits = {kind: parsed(resource.getrlimit, kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE)}
    assert limits == {resource.RLIMIT_AS: 1 << 30, resource.RLIMIT_FSIZE: 0}
    assert 0 < parsed(resource.getrlimit, resource.RLIMIT_CPU)[0] < 600


@pytest.mark.full
@for_each("path", depth(["a.py", "b.xml"], list(LARGE)))
def test_no_file_takes_this_process_long(path: str) -> None:
    began = time.process_time()
    assert isinstance(syntax_error(path, LARGE[path].encode()), str)
    if path.endswith(".py"):
        _ = python_tree(LARGE[path])
    assert time.process_time() - began < 1.0


@pytest.mark.full
async def test_what_takes_too_long_is_given_up_while_the_event_loop_runs_and_the_next_file_is_parsed() -> None:
    ticks, parsing = 0, asyncio.to_thread(parsed, parse_error, ".toml", LARGE["b.toml"])
    giving_up = asyncio.create_task(parsing)
    while not giving_up.done():
        ticks += 1
        await asyncio.sleep(0.01)
    with pytest.raises(TooComplex):
        await giving_up
    assert ticks > 20
    assert (syntax_error("a.py", b"x = (") != "", syntax_error("a.py", b"x = ()")) == (True, "")


def test_schemas_and_numbers_of_a_folder_take_this_process_no_time() -> None:
    began = time.process_time()
    sixty = "a: " + ":".join(["59"] * 90_000)
    tried = [("s.json", SCHEMA, "a.json", "", UNIQUE), ("s.json", SCHEMA, "a.yaml", "", sixty)]
    for arguments in depth(tried[:1], tried):
        with contextlib.suppress(TooComplex):
            _ = parsed(validators.new_problems, *arguments)
    assert time.process_time() - began < 0.5


def test_a_process_that_somebody_else_ended_is_started_again() -> None:
    process = psutil.Process(parsed(os.getpid))
    process.kill()
    process.wait()
    assert parsed(toml, "a = 2") == {"a": 2}


async def test_a_call_of_a_process_apart_ends_when_that_is_closed() -> None:
    apart = parser_apart(60)
    calling = asyncio.create_task(asyncio.to_thread(apart.call, time.sleep, (60,)))
    await asyncio.sleep(0.5)
    apart.close()
    with pytest.raises(TooComplex):
        await calling


def test_an_answer_that_nobody_took_is_not_that_of_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lmtui.parser_process.select.select", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _ = parsed(toml, "a = 1")
    assert parsed(toml, "a = 2") == {"a": 2}


def test_settings_that_are_too_complex_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object) -> NoReturn:
        raise TooComplex("too complex to be parsed")

    (tmp_path / ".lmagent").mkdir()
    (tmp_path / ".lmagent" / "config.toml").write_text("a.b = 1\n" * 1_000)
    monkeypatch.setattr("lmtui.parser_process._PROCESS.call", give_up)
    with pytest.raises(ConfigError, match="too complex"):
        load_config(tmp_path, {}, {})


def test_the_process_is_another_without_the_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "secret")
    assert parsed(os.getpid) != os.getpid()
    assert (parsed(os.getcwd), parsed(os.getenv, "LLM_API_KEY")) == ("/", None)
