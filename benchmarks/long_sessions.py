"""Memory behind a gigabyte of output, and ten sessions that work at once.

The model server is scripted and a process of its own, and so is what is measured: lmtui without a screen, with commands in the
process sandbox.

    python -m benchmarks.long_sessions serve|flood|many STEPS [URL FOLDER SESSIONS]
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.report import Figure
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.events import Envelope, TurnEnded, TurnReason, UsageUpdated
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[1]
FLOOD_STEPS, FLOOD_BYTES, WARM_UP = 5_000, 200_000, 10
SESSIONS, STEPS_EACH = 10, 40
_PIECES_PER_S = 40.0
_MB = 1024.0


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    return [*_many(), *_flood()]


def _flood() -> list[Figure]:
    with _serving("flood", FLOOD_STEPS) as url:
        found = _measured("flood", FLOOD_STEPS, url, 1)
    name = f"{FLOOD_STEPS:,} steps, {FLOOD_STEPS * FLOOD_BYTES / 1e9:g} GB of output"
    return [
        Figure(f"{name}: memory above that at step {WARM_UP}", found["grown_mb"], "MB", 100),
        Figure("the same: above the opened session, with what the first request loads once", found["whole_mb"], "MB"),
        Figure("the same: memory grown in the second half", found["grown_late_mb"], "MB"),
        Figure("the same: last 100 steps ÷ first 100, CPU", found["growth"], "×"),
    ]


def _many() -> list[Figure]:
    with _serving("many", STEPS_EACH) as url:
        alone = _measured("many", STEPS_EACH, url, 1)
    with _serving("many", STEPS_EACH) as url:
        together = _measured("many", STEPS_EACH, url, SESSIONS)
    name = f"{SESSIONS} sessions at once: a step ÷ its time alone"
    return [
        Figure(f"{name}, median", together["step_s"] / alone["step_s"], "×", 1.5),
        Figure(f"{name}, 95th percentile", together["late_s"] / alone["late_s"], "×", 1.5),
        Figure(f"{name}, lmtui's own CPU", together["cpu_ms"] / alone["cpu_ms"], "×", 1.5),
        Figure("a step alone, lmtui's own CPU", alone["cpu_ms"], "ms"),
    ]


@contextmanager
def _serving(kind: str, steps: int) -> Iterator[str]:
    """Run the model server in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.long_sessions", "serve", str(steps), kind]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def _measured(kind: str, steps: int, url: str, sessions: int) -> dict[str, float]:
    """Run lmtui in a process of its own and return what it measured."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.long_sessions", kind, str(steps), url, folder, str(sessions)]
        environ = os.environ | {"LMTUI_HOME": home}
        done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class OrderlyServer(ScriptedServer):
    """Plays the turns in order for each task that is given, and keeps no request."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self._places: dict[str, int] = {}

    def _turn(self, body: dict[str, Any]) -> tuple[Scenario, int, ScriptedTurn]:
        self.requests.clear()
        scenario = self._scenarios[0]
        task = next(str(each["content"])[:10] for each in body["messages"] if each["role"] == "user")
        place = self._places[task] = self._places.get(task, -1) + 1
        return scenario, place, scenario.turns[place] if place < len(scenario.turns) else ScriptedTurn("All is done.")


async def serve(kind: str, steps: int) -> None:
    """Play a script until the input ends."""
    turn = _flood_turn if kind == "flood" else _small_turn
    async with OrderlyServer(Scenario(tuple(map(turn, range(steps))))) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _flood_turn(number: int) -> ScriptedTurn:
    start = number * 7919 + 100_000
    command = f"seq -f 'tests/test_part{number}.py::test_%.0f PASSED' {start} 31 {start + 300_000} | head -c {FLOOD_BYTES}"
    return ScriptedTurn(f"Step {number} runs.", calls=(ScriptedCall("shell", {"command": command}),))


def _small_turn(number: int) -> ScriptedTurn:
    calls = (
        ScriptedCall("read", {"path": f"f{number}.txt"}),
        ScriptedCall("write", {"path": f"out{number}.txt", "content": f"part {number}\n"}),
        ScriptedCall("shell", {"command": f"echo part {number}"}),
    )
    text = f"Step {number} looks at one more part of it, and says why in a few words."
    return ScriptedTurn(text, calls=(calls[number % 3],), rate=_PIECES_PER_S)


def _open(folder: Path, url: str, slots: int) -> Runtime:
    config = Config(sandbox="process", mode="auto", max_retries=0, url=url, max_iterations=2 * FLOOD_STEPS, slots=slots)
    return Runtime(folder, config)


async def flood(folder: Path, url: str) -> dict[str, float]:
    """Run commands that say much, and return how the memory of this process grew."""
    runtime = _open(folder, url, 1)
    session = await runtime.new_session()
    sizes_mb, cpu_s, endings = [_memory_mb()], [time.process_time()], list[TurnReason]()

    def take(envelope: Envelope) -> None:
        if isinstance(envelope.event, UsageUpdated):
            sizes_mb.append(_memory_mb())
            cpu_s.append(time.process_time())
        elif isinstance(envelope.event, TurnEnded):
            endings.append(envelope.event.reason)

    session.subscribe(take)
    session.submit("Run it all.")
    await session.wait_idle()
    await runtime.close()
    if endings != [TurnReason.DONE]:
        raise RuntimeError(f"the work did not come to its end: {endings}")
    steps_s = [after - before for before, after in pairwise(cpu_s[2:])]
    return {
        "grown_mb": max(sizes_mb) - sizes_mb[WARM_UP],
        "whole_mb": max(sizes_mb) - sizes_mb[0],
        "grown_late_mb": sizes_mb[-1] - sizes_mb[len(sizes_mb) // 2],
        "growth": statistics.mean(steps_s[-100:]) / statistics.mean(steps_s[:100]),
    }


async def many(folder: Path, url: str, count: int) -> dict[str, float]:
    """Let so many sessions work at once, and return what a step takes."""
    for number in range(STEPS_EACH):
        (folder / f"f{number}.txt").write_text(f"line of file {number}\n" * 40)
    runtime = _open(folder, url, SESSIONS)
    sessions = [await runtime.new_session() for _ in range(count)]
    times: list[list[float]] = [[] for _ in sessions]
    cpu_s: list[float] = []

    def take(envelope: Envelope, own: list[float]) -> None:
        if isinstance(envelope.event, UsageUpdated):
            own.append(time.monotonic())
            cpu_s.append(time.process_time())

    for session, own in zip(sessions, times, strict=True):
        session.subscribe(partial(take, own=own))
    for number, session in enumerate(sessions):
        session.submit(f"Task {number:03}: do it.")
    await asyncio.gather(*(session.wait_idle() for session in sessions))
    await runtime.close()
    steps_s = sorted(after - before for own in times for before, after in pairwise(own[1:]))
    steady_s = cpu_s[2 * count :]  # behind what is loaded once
    cpu_ms = 1000 * (steady_s[-1] - steady_s[0]) / (len(steady_s) - 1)
    return {"step_s": statistics.median(steps_s), "late_s": steps_s[int(len(steps_s) * 0.95)], "cpu_ms": cpu_ms}


def _memory_mb() -> float:
    """Return what this process holds in memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / _MB


def main() -> None:
    """Serve, or measure and print what was found as JSON."""
    kind, steps, *rest = sys.argv[1:]
    match kind, rest:
        case "serve", [what]:
            asyncio.run(serve(what, int(steps)))
        case "flood", [url, folder, _]:
            print(json.dumps(asyncio.run(flood(Path(folder), url))))
        case "many", [url, folder, count]:
            print(json.dumps(asyncio.run(many(Path(folder), url, int(count)))))


if __name__ == "__main__":
    main()
