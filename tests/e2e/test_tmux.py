from __future__ import annotations

import asyncio
import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.tmux

TASK = "write the greeting"
WRITE = ScriptedCall("write", {"path": "greeting.txt", "content": "hello from the model\n"})
SCENARIOS = (
    Scenario((ScriptedTurn("I will write it.", calls=(WRITE,)), ScriptedTurn("The greeting is written.")), match=TASK),
    Scenario((ScriptedTurn("This is another conversation."),), name="other", match="something else"),
)


class Terminal:
    """One tmux window with the program in it; each time it is opened it has a tmux server of its own."""

    _opened = itertools.count()

    def __init__(self, program: Program) -> None:
        self._program = program
        self._socket = ""

    def tmux(self, *arguments: str) -> str:
        run = ["tmux", "-L", self._socket, *arguments]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout

    def open(self, *arguments: str, width: int = 120, height: int = 32) -> None:
        window = f"{self._command(arguments)}; echo ended with code $?; sleep 60"
        self._new_window(width, height, "-c", window)

    def open_shell(self, *arguments: str, width: int = 120, height: int = 32) -> None:
        """Start the program as a job of a shell."""
        self._new_window(width, height, "-i")
        self.type(f" {self._command(arguments)}")
        self.keys("Enter")

    def _new_window(self, width: int, height: int, *shell: str) -> None:
        self._socket = f"lmtui-test-{os.getpid()}-{next(self._opened)}"
        size = ("-x", str(width), "-y", str(height))
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "bash", "--norc", *shell)

    def _command(self, arguments: tuple[str, ...]) -> str:
        environ = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._program.full_environ().items())
        run = f"{sys.executable} -m lmtui {shlex.join(arguments)}"
        return f"cd {self._program.workspace} && env -u COLUMNS -u LINES {environ} {run}"

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True, check=False)

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    async def until(self, test: Callable[[str], bool] | str, limit_s: float = PATIENCE_S) -> str:
        """Wait for a text on the screen, or for a test of it to hold, and return the screen."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            screen = self.screen()
            if test in screen if isinstance(test, str) else test(screen):
                return screen
            await asyncio.sleep(0.1)
        raise AssertionError(f"not on the screen in {limit_s} s: {test}\n{self.screen()}")


@pytest.fixture
def terminal(program: Program) -> Iterator[Terminal]:
    terminal = Terminal(program)
    yield terminal
    terminal.close()


@pytest.mark.quick
async def test_a_day_at_the_workbench(program: Program, terminal: Terminal) -> None:
    async with ScriptedServer(*SCENARIOS) as server:
        start = ("--url", server.url, "--sandbox", "process")
        terminal.open(*start)
        await terminal.until("no sandbox")
        terminal.type(TASK)
        terminal.keys("Enter")
        asked = await terminal.until("greeting.txt?")
        assert "hello from the model" in asked
        assert not (program.workspace / "greeting.txt").exists()
        await asyncio.sleep(0.5)
        terminal.keys("y")
        await terminal.until("The greeting is written.")
        assert (program.workspace / "greeting.txt").read_text() == "hello from the model\n"
        await terminal.until(lambda screen: "Esc stop" not in screen)

        terminal.keys("F4")
        await terminal.until(lambda screen: "The greeting is written." not in screen)
        terminal.type("something else")
        terminal.keys("Enter")
        await terminal.until("This is another conversation.")
        terminal.keys("F2")
        await terminal.until("Sessions")
        await asyncio.sleep(0.5)
        terminal.keys("Down")
        terminal.keys("Enter")
        await terminal.until(lambda screen: "The greeting is written." in screen and "Enter open" not in screen)

        terminal.keys("C-q")
        await terminal.until(lambda screen: f"{TASK}\nlmtui resume 2" in screen and "ended with code 0" in screen)
        terminal.close()

        terminal.open("resume", *start)
        await terminal.until("This is another conversation.")
        terminal.keys("C-q")
        await terminal.until("ended with code 0")


async def test_a_session_outlives_its_terminal_and_two_others_share_it(program: Program, terminal: Terminal) -> None:
    second, third = Terminal(program), Terminal(program)
    try:
        async with ScriptedServer(*SCENARIOS) as server:
            begun = await program.run("run", "--detach", "--url", server.url, "--sandbox", "process", TASK)
            assert begun.code == 0, begun.err
            terminal.open("attach")
            await terminal.until("greeting.txt?")
            terminal.close()
            second.open("attach", begun.out.strip()[-6:])
            third.open("attach", "--plain", width=100)
            await third.until("greeting.txt")
            await second.until("greeting.txt?")
            await asyncio.sleep(0.5)
            second.keys("y")
            await second.until("The greeting is written.")
            await third.until("press enter to go on")
            third.keys("Enter")
            await third.until("The greeting is written.")
            assert (program.workspace / "greeting.txt").read_text() == "hello from the model\n"
            second.keys("C-q")
            await second.until("ended with code 0")
            stopped = await program.run("host", "stop", "--now")
            assert stopped.code == 0, stopped.err
            third.keys("Enter")
            await third.until("The host was stopped")
    finally:
        _ = await program.run("host", "stop", "--now")
        for each in (second, third):
            each.close()


READ = (Scenario((ScriptedTurn("I have read it."),)),)


def lmtui_pid(program: Program) -> int:
    """Return the process that draws: it runs in the workspace and its parent is not lmtui."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words[1:3] == ["-m", "lmtui"] and process.environ().get("LMTUI_HOME") == str(program.home):
            found.append(process.pid)
    return min(found)


async def test_a_draft_survives_a_kill(program: Program, terminal: Terminal) -> None:
    async with ScriptedServer(*READ) as server:
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
