"""The commands that pages for script authors show are run as they stand there."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys

import pytest

from lmtui.providers.scenario import ScriptedTurn
from tests.e2e.conftest import ROOT, Program, Serve

_BLOCK = re.compile(r"^```(?:sh|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINE = re.compile(r"^(?:\s*-\s(?:run:\s)?)?(?P<line>[^#\n]*\blmtui (?:run|completion|help|sandbox)\b.*)$", re.MULTILINE)


def lines(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [found["line"].strip() for block in _BLOCK.findall(text) for found in _LINE.finditer(block)]


@pytest.mark.parametrize("line", lines("scripts.md"))
async def test_a_line_of_the_page_runs(line: str, program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("Here it is."), ScriptedTurn("Here it is."))
    shim = program.home / "bin" / "lmtui"
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m lmtui "$@"\n')
    shim.chmod(0o755)
    (program.workspace / "app.py").write_text("def f(): ...\n")
    (program.workspace / "README.md").write_text("# A\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "app.py"], ["commit", "-qm", "one"], ["branch", "origin/main"]):
        subprocess.run([*git, *words], cwd=program.workspace, check=True)
    if "--continue" in line:
        await program.run("run", "--url", server.url, "--sandbox", "process", "first")
    environ = program.full_environ() | {"LLM_URL": server.url}
    environ["PATH"] = f"{shim.parent}:{environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-euo", "pipefail", "-c", line, cwd=program.workspace, env=environ,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert b"Here it is." in (out or (program.workspace / "result.json").read_bytes())


def test_the_page_has_lines_to_run() -> None:
    assert len(lines("scripts.md")) >= 7
