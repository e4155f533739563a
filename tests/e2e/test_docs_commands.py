"""The commands that pages show are run as they stand there, as far as they need neither a network nor a real model."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from docs import make_events
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.store.session_logs import EVENT_TYPES
from tests.e2e.conftest import ROOT, Program, Serve
from tests.waiting import PATIENCE_S

PAGES = ("scripts.md", "json-events.md", "installation.md", "servers/litellm.md", "servers/llama-cpp-python.md")
_BLOCK = re.compile(r"^```(?:sh|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WORDS = "run|completion|help|sandbox|models|config|doctor|demo|--version"
_LINE = re.compile(rf"^(?:\s*-\s(?:run:\s)?)?(?P<line>[^#\n]*\blmtui (?:{_WORDS})(?!\S).*)$", re.MULTILINE)


def lines(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [found["line"].strip() for block in _BLOCK.findall(text) for found in _LINE.finditer(block)]


@pytest.mark.parametrize(("page", "line"), [(page, line) for page in PAGES for line in lines(page)])
async def test_a_line_of_a_page_runs(page: str, line: str, program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("Here it is."), ScriptedTurn("Here it is."), models=("coder",))
    line = re.sub(r"http://127\.0\.0\.1:\d+", server.url, line)
    shim = program.home / "bin" / "lmtui"
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lmtui "$@"\n')
    shim.chmod(0o755)
    (program.home / ".config" / "fish" / "completions").mkdir(parents=True)
    (program.workspace / "app.py").write_text("def f(): ...\n")
    (program.workspace / "README.md").write_text("# A\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "app.py"], ["commit", "-qm", "one"], ["branch", "origin/main"]):
        subprocess.run([*git, *words], cwd=program.workspace, check=True)
    if "--continue" in line:
        await program.run("run", "--url", server.url, "--sandbox", "process", "first")
    environ = program.full_environ() | {"LLM_URL": server.url}
    if "fish" in line:  # it writes below the home folder
        environ["HOME"] = str(program.home)
    environ["PATH"] = f"{shim.parent}:{environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", line, cwd=program.workspace, env=environ,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    if "lmtui run" in line:
        assert b"Here it is." in (out or (program.workspace / "result.json").read_bytes())


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_lines_to_run(page: str) -> None:
    assert len(lines(page)) >= (7 if page == "scripts.md" else 2)


async def test_the_fields_of_a_result_are_those_of_the_page(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("Done."))
    result = await program.run("run", "--url", server.url, "--sandbox", "process", "--output", "json", "go")
    assert tuple(result.json) == tuple(name for name in make_events.RESULT if name not in ("plan", "attempts", "patch"))


async def test_the_events_of_a_task_have_the_fields_of_the_page(program: Program, serve: Serve) -> None:
    call = ScriptedCall("write", {"path": "a.txt", "content": "one\n"})
    server = await serve(ScriptedTurn("Writing.", calls=(call,)), ScriptedTurn("Done."))
    result = await program.run(
        "run", "--url", server.url, "--sandbox", "process", "--mode", "auto", "--output", "stream-json", "go"
    )
    own = {each.kind: [field.name for field in fields(each)] for each in EVENT_TYPES}
    for event in result.events:
        assert sorted(event) == sorted([*make_events.ENVELOPE, *own[event["kind"]]])
    assert set(make_events.STABLE) - {event["kind"] for event in result.events} == {"approval_requested", "approval_resolved"}


def example() -> str:
    (found,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "long-tasks.md").read_text(), re.DOTALL)
    return str(found)


def play(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    (folder / "batch.py").write_text(script)
    environ = {
        **os.environ, "PYTHONPATH": str(ROOT), "LMTUI_HOME": str(folder.parent / "home"), "LMTUI_SANDBOX": "process",
    }  # fmt: skip
    run = [sys.executable, "batch.py"]
    return subprocess.run(run, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_the_example_of_the_docs_runs_to_its_end(tmp_path: Path) -> None:
    found = play(tmp_path / "whole", example())
    assert found.returncode == 0, found.stderr
    assert [path.read_text() for path in sorted((tmp_path / "whole" / "notes").iterdir())] == [
        f"# notes/{number}.md\n" for number in range(1, 6)
    ]
