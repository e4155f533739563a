"""An app that is attached to a host, next to one with its sessions in process: first frame, first sight of a session, a key."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.fullscreen import PROMPT, ROOT, Pty
from benchmarks.report import Figure
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

_SAID = b"a heron stands at the water"
_KEYS = b"thequickbrownfoxjumpsover"


def figures(rounds: int = 5) -> list[Figure]:
    """Measure and return every figure of this part."""
    return asyncio.run(_measured(rounds))


async def _measured(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        async with ScriptedServer(Scenario((ScriptedTurn(_SAID.decode()),))) as server:
            environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
            environ |= {"LMTUI_HOME": home, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
            program = [sys.executable, "-m", "lmtui"]
            given = ["--url", server.url, "--model", "scripted", "--sandbox", "process"]

            def run(*words: str) -> str:
                done = subprocess.run([*program, *words], env=environ, cwd=folder, capture_output=True, text=True, check=True)
                return done.stdout.strip()

            session = await asyncio.to_thread(run, "run", "--detach", *given, "Tell me of herons")
            try:
                await asyncio.sleep(2)
                attached = await asyncio.to_thread(_rounds, [*program, "attach", session, *given], environ, folder, rounds)
                own = await asyncio.to_thread(_rounds, [*program, *given], environ, folder, rounds)
                idle = await asyncio.to_thread(_idle, home)
            finally:
                _ = await asyncio.to_thread(run, "host", "stop", "--now")
    return [
        Figure("attach: start to first frame", attached.frame_s, "s", 0.4),
        Figure("the same without a host", own.frame_s, "s"),
        Figure("attach: start to the session on screen", attached.shown_s, "s"),
        Figure("a key until it is drawn, attached minus in process", attached.key_ms - own.key_ms, "ms", 3.0),
        Figure("idle host after a session: CPU", idle[0], "%", 0.05),
        Figure("idle host after a session: memory", idle[1], "MB", 70.0),
    ]


class _Times:
    """Medians over rounds."""

    def __init__(self) -> None:
        self.frames: list[float] = []
        self.sights: list[float] = []
        self.keys: list[float] = []

    @property
    def frame_s(self) -> float:
        """Return the time to the first frame."""
        return statistics.median(self.frames)

    @property
    def shown_s(self) -> float:
        """Return the time until the session is on screen, 0 where there is none."""
        return statistics.median(self.sights) if self.sights else 0.0

    @property
    def key_ms(self) -> float:
        """Return the time of a key."""
        return 1000 * statistics.median(self.keys)


def _rounds(command: list[str], environ: dict[str, str], folder: str, rounds: int) -> _Times:
    times, is_attached = _Times(), "attach" in command
    for _ in range(rounds):
        begun = time.monotonic()
        program = Pty(command, environ, folder)
        try:
            program.until(b"lmtui")
            times.frames.append(time.monotonic() - begun)
            program.until(_SAID if is_attached else PROMPT)
            times.sights += [time.monotonic() - begun] if is_attached else []
            program.read(3)
            for char in _KEYS:
                sent = time.monotonic()
                os.write(program.fd, bytes([char]))
                program.data.clear()
                while not program.data:
                    program.read(0.0005)
                times.keys.append(time.monotonic() - sent)
                program.read(0.1)
        finally:
            program.close()
    return times


def _idle(home: str, seconds: float = 20.0) -> tuple[float, float]:
    """Return the CPU in percent and the memory in MB of the host that runs in a home, once nobody is attached."""
    time.sleep(20)  # its last session is closed by then
    process = next(
        each for each in psutil.process_iter(["cmdline", "environ"])
        if "host" in (each.info["cmdline"] or ()) and "run" in (each.info["cmdline"] or ()) and _home_of(each.pid) == home
    )  # fmt: skip
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return 100 * (sum(process.cpu_times()[:2]) - before) / seconds, process.memory_info().rss / 1e6


def _home_of(pid: int) -> str:
    """Return the home of a host by the files that it has open."""
    try:
        found = [str(Path(each.path)) for each in psutil.Process(pid).open_files() if each.path.endswith("/host/host.json")]
    except psutil.Error:
        return ""
    return found[0].removesuffix("/state/host/host.json") if found else ""
