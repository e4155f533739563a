from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program
from tests.e2e.test_tmux import Terminal, terminal

__all__ = ["terminal"]

pytestmark = pytest.mark.tmux

SCENARIOS = (Scenario((ScriptedTurn("I have read it."),)),)


def lmtui_pid(program: Program) -> int:
    """Return the process that draws: it runs in the workspace and its parent is not lmtui."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words[1:3] == ["-m", "lmtui"] and process.environ().get("LMTUI_HOME") == str(program.home):
            found.append(process.pid)
    return min(found)


async def test_a_draft_survives_a_kill(program: Program, terminal: Terminal) -> None:
    async with ScriptedServer(*SCENARIOS) as server:
        terminal.open("--url", server.url, "--sandbox", "process")
        await terminal.until("no sandbox")
        terminal.type("half a thought")
        await terminal.until("half a thought")
        drafts = program.home / "state" / "history"
        await terminal.until(lambda _: bool(list(drafts.glob("*.drafts/*.json"))))
        os.kill(lmtui_pid(program), signal.SIGKILL)
        await terminal.until("ended with code 137")
        terminal.close()
        terminal.open("--url", server.url, "--sandbox", "process")
        await terminal.until("half a thought")


async def test_a_command_a_file_and_an_editor_from_the_prompt(program: Program, terminal: Terminal) -> None:
    (program.workspace / "notes.txt").write_text("forty-two is the answer\n")
    editor = program.home / "editor"
    editor.parent.mkdir(parents=True, exist_ok=True)
    editor.write_text('#!/bin/sh\nsed -i "s/this/@notes.txt/" "$1"\n')
    editor.chmod(0o755)
    program.environ["EDITOR"] = str(editor)
    async with ScriptedServer(*SCENARIOS) as server:
        terminal.open("--url", server.url, "--sandbox", "process")
        await terminal.until("no sandbox")
        terminal.type("!echo made by hand > hand.txt; cat hand.txt")
        terminal.keys("Enter")
        await terminal.until(lambda screen: "allowed once" in screen and "made by hand" in screen)
        assert (program.workspace / "hand.txt").read_text() == "made by hand\n"
        terminal.type("explain this")
        terminal.keys("C-g")
        await terminal.until("explain @notes.txt")
        terminal.keys("Enter")
        await terminal.until("I have read it.")
        sent = str(server.requests[-1].body)
        assert "forty-two is the answer" in sent
        assert "[The user ran a command: echo made by hand" in sent
        assert not list(Path("/tmp").glob("lmtui-*.md"))
