"""The full-screen app in a real pseudo-terminal: CPU to the first frame, what it costs to do nothing, bytes for a key."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.report import Figure
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[1]
BARE = """
from textual.app import App
from textual.widgets import Input
class Bare(App):
    def compose(self):
        field = Input(placeholder="ready")
        field.cursor_blink = False
        yield field
Bare().run()
"""

PROMPT = b"hat should we work on?"  # the empty prompt of the first frame; the cursor stands on its first letter


@dataclass
class Pty:
    """A program in a pseudo-terminal of 120 × 32, and every byte that it wrote."""

    command: list[str]
    environ: dict[str, str]
    cwd: str
    data: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(self.cwd)
            os.execve(self.command[0], self.command, self.environ)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 32, 120, 0, 0))

    def cpu_s(self) -> float:
        """Return the CPU that the program's threads have used, in the scheduler's nanoseconds (proc(5), schedstat)."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def read(self, seconds: float) -> int:
        """Take what is written within a time and return how much it was."""
        end = time.monotonic() + seconds
        size = 0
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                chunk = os.read(self.fd, 65536)
                self.data += chunk
                size += len(chunk)
        return size

    def until(self, marker: bytes, limit_s: float = 30) -> float:
        """Read until a marker is there and return the CPU used until then."""
        end = time.monotonic() + limit_s
        while marker not in self.data:
            if time.monotonic() > end:
                raise TimeoutError(f"{marker!r} did not appear")
            self.read(0.005)
        return self.cpu_s()

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    return asyncio.run(_measured(is_start_alone=False))


def starting() -> list[Figure]:
    """Measure and return what the first frame costs, alone."""
    return asyncio.run(_measured(is_start_alone=True))


async def _measured(*, is_start_alone: bool) -> list[Figure]:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        async with ScriptedServer(Scenario((ScriptedTurn("hello"),))) as server:
            environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            environ |= {"LMTUI_HOME": home, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            ours = [sys.executable, "-m", "lmtui", "--url", server.url, "--sandbox", "process"]
            bare = [sys.executable, "-c", BARE]
            ratios: list[float] = []
            for number in range(6):
                floor = await asyncio.to_thread(_start, bare, environ, folder, b"eady")
                cost = await asyncio.to_thread(_start, ours, environ, folder, PROMPT)
                ratios += [cost / floor] if number else []
            start = Figure("start to first interactive frame, CPU ÷ bare app", statistics.median(ratios), "×", 1.25)
            if is_start_alone:
                return [start]
            percent, idle_bytes, key_bytes = await asyncio.to_thread(_rest, ours, environ, folder)
    return [
        start,
        Figure("idle for 10 s: CPU", percent, "%", 0.05),
        Figure("idle for 10 s: bytes written", idle_bytes, "B", 0.5),
        Figure("bytes for one key in the prompt", key_bytes, "B", 600),
    ]


def _start(command: list[str], environ: dict[str, str], cwd: str, marker: bytes) -> float:
    program = Pty(command, environ, cwd)
    try:
        return program.until(marker)
    finally:
        program.close()


def _rest(command: list[str], environ: dict[str, str], cwd: str) -> tuple[float, float, float]:
    program = Pty(command, environ, cwd)
    try:
        program.until(PROMPT)
        program.read(8)
        before = program.cpu_s()
        idle_bytes = program.read(10)
        percent = (program.cpu_s() - before) * 10
        sizes = []
        for char in b"the quick brown fox jumps":
            os.write(program.fd, bytes([char]))
            sizes.append(program.read(0.15))
        return percent, float(idle_bytes), statistics.median(sizes)
    finally:
        program.close()
