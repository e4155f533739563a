from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program
from tests.e2e.test_tmux import Terminal, lmtui_pid, terminal

__all__ = ["terminal"]

pytestmark = pytest.mark.tmux

SLOW = ScriptedTurn(" ".join(f"word{number}" for number in range(600)), rate=20.0)
SCENARIOS = (
    Scenario((SLOW, ScriptedTurn("And on it goes.")), name="slow", match="talk"),
    Scenario((ScriptedTurn("This is the answer."), ScriptedTurn("This is another one."))),
)
RESTORED = "0 0 1"
STATE = "#{alternate_on} #{mouse_any_flag} #{cursor_flag}"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(*SCENARIOS) as server:
        yield server


def start(server: ScriptedServer, *before: str) -> tuple[str, ...]:
    return (*before, "--url", server.url, "--sandbox", "process")


async def leaves(terminal: Terminal, code: int = 0) -> None:
    """Wait for the end and see that the terminal is as it was, and that nothing broke."""
    screen = await terminal.until(f"ended with code {code}")
    assert "Traceback" not in screen
    assert terminal.tmux("display", "-p", STATE).strip() == RESTORED


async def task(terminal: Terminal, text: str, answer: str) -> None:
    terminal.type(text)
    terminal.keys("Enter")
    await terminal.until(answer)


@pytest.mark.parametrize(
    "environ",
    [{"NO_COLOR": "1"}, {"LANG": "", "LC_ALL": "POSIX"}, {"TERM": "nothing-known"}, {"COLORTERM": "", "TERM": "linux"}],
    ids=str,
)
async def test_an_odd_environment_works(
    program: Program, terminal: Terminal, server: ScriptedServer, environ: dict[str, str]
) -> None:
    program.environ |= environ
    terminal.open(*start(server))
    await terminal.until("no sandbox")
    await task(terminal, "say something", "This is the answer.")
    if "NO_COLOR" in environ:
        assert "\x1b[3" not in terminal.tmux("capture-pane", "-p", "-e").replace("\x1b[39m", "")
    terminal.keys("C-q")
    await leaves(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
async def test_a_signal_in_a_turn_restores_the_terminal_and_the_session_goes_on(
    program: Program, terminal: Terminal, server: ScriptedServer, number: int
) -> None:
    terminal.open(*start(server))
    await terminal.until("no sandbox")
    await task(terminal, "talk to me", "word1 word2")
    os.kill(lmtui_pid(program), number)
    if number == signal.SIGKILL:
        await terminal.until("ended with code 137")
    else:
        await leaves(terminal, 130)
    terminal.close()
    terminal.open(*start(server, "resume"))
    await terminal.until("talk to me" if number == signal.SIGKILL else "Stopped")
    if number != signal.SIGKILL:  # then the answer that was cut off comes again
        await task(terminal, "talk on", "And on it goes.")
    terminal.keys("C-q")
    await leaves(terminal)


async def test_a_sleep_gives_the_terminal_back_and_fg_draws_everything_again(
    program: Program, terminal: Terminal, server: ScriptedServer
) -> None:
    terminal.open_shell(*start(server))
    await terminal.until("no sandbox")
    await task(terminal, "say something", "This is the answer.")
    terminal.type("a draft")
    await terminal.until("a draft")
    terminal.keys("C-z")
    await terminal.until("Stopped")
    assert terminal.tmux("display", "-p", STATE).strip() == RESTORED
    terminal.type("echo still a shell")
    terminal.keys("Enter")
    await terminal.until("\nstill a shell")
    terminal.type("fg")
    terminal.keys("Enter")
    await terminal.until(lambda screen: "This is the answer." in screen and "a draft" in screen)
    terminal.keys("Enter")
    await terminal.until("This is another one.")
    terminal.keys("C-q")
    await asyncio.sleep(1)
    terminal.type("echo ended with code $?")
    terminal.keys("Enter")
    await leaves(terminal)
