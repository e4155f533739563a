from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program
from tests.waiting import PATIENCE_S

WRITE = ScriptedCall("write", {"path": "greeting.txt", "content": "hello from the model\n"})
SCENARIOS = (
    Scenario((ScriptedTurn("I will write it. It is short.", calls=(WRITE,)), ScriptedTurn("It is written.")), match="greeting"),
    Scenario((ScriptedTurn(" ".join(f"word{number}" for number in range(600)), rate=20.0),), name="slow", match="talk"),
)
NOT_A_LINE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2500-\u257f]")


class Pty:
    """The program on a bare terminal that it has to itself."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._pid = self._file = 0
        self.seen = ""

    def open(self, *arguments: str) -> None:
        self._pid, self._file = pty.fork()
        if not self._pid:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and so would the program
            os.chdir(self._program.workspace)
            run = [sys.executable, "-m", "lmtui", *arguments]
            os.execve(sys.executable, run, self._program.full_environ())

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    async def until(self, text: str, limit_s: float = PATIENCE_S) -> str:
        """Wait for a text behind all that was waited for before, and return what came up to it."""
        end, found = time.monotonic() + limit_s, ""
        while text not in found:
            ready, _, _ = await asyncio.to_thread(select.select, [self._file], [], [], 0.2)
            if ready:
                try:
                    found += os.read(self._file, 65536).decode()
                except OSError:
                    break
            if time.monotonic() > end:
                break
        self.seen += found
        assert text in found, f"not said in {limit_s} s: {text}\n{self.seen}"
        return found

    def signal(self, number: int) -> None:
        os.kill(self._pid, number)

    async def code(self, limit_s: float = PATIENCE_S) -> int:
        """Wait for the end and return the exit code."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if (code := self._ended()) is not None:
                return code
            await asyncio.sleep(0.05)
        raise AssertionError(f"still there\n{self.seen}")

    def _ended(self) -> int | None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._file)


@pytest.fixture
def terminal(program: Program) -> Iterator[Pty]:
    program.environ |= {"TERM": "dumb", "PYTHONWARNINGS": "ignore"}
    terminal = Pty(program)
    yield terminal
    terminal.close()


@pytest.fixture
async def started(terminal: Pty) -> AsyncIterator[ScriptedServer]:
    """Start the program, wait until it asks for a text, and return its server."""
    async with ScriptedServer(*SCENARIOS) as server:
        terminal.open("--plain", "--url", server.url, "--sandbox", "process")
        await terminal.until("you: ")
        yield server


@pytest.mark.usefixtures("started")
async def test_a_task_from_start_to_undo_in_lines_alone(program: Program, terminal: Pty) -> None:
    terminal.type("write the greeting\n")
    asked = await terminal.until("your answer (")
    assert "  I will write it.\r\n" in asked
    assert "approval needed: Write greeting.txt?" in asked
    assert not (program.workspace / "greeting.txt").exists()
    terminal.type("y\n")
    told = await terminal.until("you: ")
    assert "turn finished: done, 1 tool call, 1 file changed" in told
    assert (program.workspace / "greeting.txt").read_text() == "hello from the model\n"
    terminal.type("/undo\n")
    await terminal.until("yes or no? ")
    terminal.type("y\n")
    await terminal.until("undone: ")
    assert not (program.workspace / "greeting.txt").exists()
    terminal.type("/quit\n")
    assert await terminal.code() == 0
    assert NOT_A_LINE.findall(terminal.seen) == []
    assert "Traceback" not in terminal.seen


async def test_what_was_typed_before_a_question_does_not_answer_it(
    program: Program, started: ScriptedServer, terminal: Pty
) -> None:
    terminal.type("write the greeting\ny\ny\n")
    await terminal.until("your answer (")
    await asyncio.sleep(0.5)
    assert not (program.workspace / "greeting.txt").exists()
    terminal.type("f not here\n")
    await terminal.until("turn finished")
    assert not (program.workspace / "greeting.txt").exists()
    results = [message for message in started.requests[-1].body["messages"] if message["role"] == "tool"]
    assert "not here" in results[0]["content"]


async def test_ctrl_c_stops_the_turn_and_twice_it_leaves(started: ScriptedServer, terminal: Pty) -> None:
    terminal.type("talk\\\nto me\n")
    await terminal.until("lmtui answers:")
    terminal.type("\x03")
    assert "turn finished: interrupted" in await terminal.until("you: ")
    assert started.requests[-1].body["messages"][-1]["content"] == "talk\nto me"
    await asyncio.sleep(0.3)
    terminal.type("\x03")
    await terminal.until("you: ")
    await asyncio.sleep(0.3)
    terminal.type("\x03")
    assert await terminal.code() == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_in_a_turn_ends_it_and_the_session_goes_on_later(
    program: Program, started: ScriptedServer, terminal: Pty, number: int
) -> None:
    terminal.type("talk\n")
    await terminal.until("lmtui answers:")
    terminal.signal(number)
    assert await terminal.code() == 130
    assert "Traceback" not in terminal.seen
    again = Pty(program)
    again.open("resume", "--plain", "--url", started.url, "--sandbox", "process")
    assert "talk, " in await again.until("you: ")
    again.type("\x04")
    assert await again.code() == 0
    again.close()


@pytest.mark.parametrize(("environ", "words"), [({}, "TERM=dumb"), ({"TERM": "xterm", "PYTHONIOENCODING": "ascii"}, "UTF-8")])
async def test_where_nothing_can_be_drawn_the_plain_mode_is_named(
    program: Program, terminal: Pty, environ: dict[str, str], words: str
) -> None:
    program.environ |= environ
    terminal.open("--url", "http://127.0.0.1:9")
    assert words in await terminal.until("lmtui --plain")
    assert await terminal.code() == 64
