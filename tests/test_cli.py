from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import pytest

from lmtui import cli
from lmtui.cli import run
from lmtui.command_line import PARSERS
from lmtui.config import load_config
from lmtui.core.roles import ModelRole


def test_settings_of_the_command_line_reach_the_host_as_they_are(tmp_path: Path) -> None:
    given = [
        "--url", "http://127.0.0.1:1", "--model=-x", "--mode", "plan", "--sandbox", "landlock", "--network", "proxy",
        "--max-iterations", "7", "--temperature", "0.5", "--timeout-s", "9", "--allow", "Read(a b)", "--allow=-y",
        "--seed=-1", "--deny", "Shell", "--budget", "2h 10 steps", "--no-sub-agents", "--no-mcp", "--no-hooks",
        "--verify", "make test", "--goal", "make", *(f"--{role}-model={role}-7b" for role in ModelRole),
        "--append-system-prompt", "Speak of herons.", "-c", "seed=3", "--config=top_p=0.5", "--add-dir", "/srv/heron",
    ]  # fmt: skip
    arguments = PARSERS["serve"]().parse_args([*given, "--workspace", str(tmp_path)])
    _, flags = cli._given(arguments)
    sent = json.loads(json.dumps(dict(cli._target(arguments).flags)))
    there, here = (load_config(tmp_path, {}, each) for each in (sent, flags))
    assert there.config == here.config
    assert {name for name, source in there.sources.items() if source == "flag"} == set(flags)
    assert len(flags) > 15


@pytest.mark.parametrize(
    "option", ["--continue", "--resume=1", "--ephemeral", "--json", "--attempts=2", "--gguf=a", "--output-schema=a"]
)
def test_what_a_host_cannot_do_is_refused_with_detach(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--detach", option, "--workspace", str(tmp_path), "Hello"]) == 64
    assert "--detach does not work with" in capsys.readouterr().err


class Called:
    """Stands in place of a command and keeps what it was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.arguments = argparse.Namespace()
        parser, _ = cli._COMMANDS[name]
        monkeypatch.setitem(cli._COMMANDS, name, (parser, self))

    def __call__(self, arguments: argparse.Namespace) -> int:
        self.arguments = arguments
        return 0


@pytest.mark.parametrize(("argv", "command", "wanted"), [
    (["--resume", "3fa2b1", "--output", "json", "more"], "resume", {"id": "3fa2b1", "output": "json", "text": "more"}),
    (["--no-mcp", "--model=m", "--plan", "do it"], "plan", {"mcp": "off", "model": "m", "task": "do it"}),
    (["--plan", "do it", "--permission", "auto"], "plan", {"mode": "auto", "task": "do it"}),
    (["--plan", "--", "--resume"], "plan", {"task": "--resume"}),
    (["run", "--mode", "auto", "task", "--output", "json"], "run", {"task": "task", "output": "json"}),
    (["run", "--", "--plan"], "run", {"task": "--plan"}),
    (["--model", "m", "--mode=auto", "run", "run it"], "run", {"model": "m", "mode": "auto", "task": "run it"}),
    (["--model", "run", "demo"], "demo", {"model": "run"}),
])  # fmt: skip
def test_words_of_an_earlier_program_are_taken_wherever_they_stand(
    argv: list[str], command: str, wanted: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = Called(monkeypatch, command)
    assert (run(argv), {name: getattr(called.arguments, name) for name in wanted}) == (0, wanted)


def test_what_is_no_command_or_no_option_of_one_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called = Called(monkeypatch, "sessions")
    assert (run(["w", "--list-sessions"]), called.arguments.workspace) == (0, "w")
    assert run(["rum"]) == 64
    said = capsys.readouterr().err
    assert ("Did you mean `lmtui run`?" in said, 'lmtui run "TASK"' in said) == (True, True)


@pytest.mark.parametrize("task", ["fix the bug in parser.py", "word " * 400])
def test_a_task_without_a_command_begins_on_a_terminal_and_is_hinted_at_without_one(
    task: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[tuple[object, str]] = []

    def app(arguments: argparse.Namespace, session_id: str = "", task: str = "") -> int:
        del session_id
        begun.append((arguments.dir, task))
        return 0

    monkeypatch.setattr(cli, "_app", app)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert (run(["--model", "m", task]), begun) == (0, [(None, task)])
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: False)
    assert run([task]) == 64
    assert f"lmtui run '{task}'" in capsys.readouterr().err


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("here", "set", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def used(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert run(["config", "path", *argv]) == 0
    return Path(capsys.readouterr().out.splitlines()[1].partition("  ")[0]).parents[1].name


def test_the_workspace_that_a_folder_names_holds_once_the_folder_is_trusted(
    folders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folders / "here" / ".env").write_text(f"WORKSPACE={folders}/set\n")
    assert (used(capsys), run(["config", "trust", "--yes"])) == ("here", 0)
    capsys.readouterr()
    assert used(capsys) == "set"


@pytest.mark.parametrize(("words", "said"), [
    (["--model", "m", "--list-sessions"], "lmtui sessions: unknown option --model."),
    (["run", "--mod", "x", "hi"], "lmtui run: unknown option --mod. Did you mean --mode?"),
    (["--thme=paper"], "lmtui: unknown option --thme. Did you mean --theme?"),
    (["run", "--zzzz", "hi"], "`lmtui run --help` lists the options"),
])  # fmt: skip
def test_an_unknown_option_names_the_nearest(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(words)
    assert ended.value.code == 64
    assert said in capsys.readouterr().err


def test_no_program_of_the_workspace_is_on_path_of_a_process_that_only_attaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin:/usr/bin:{tmp_path / 'other'}")
    _ = cli._target(argparse.Namespace(workspace=str(tmp_path)))
    assert os.environ["PATH"] == "/usr/bin"
