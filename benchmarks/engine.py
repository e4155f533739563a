"""What lmtui itself costs without a screen: start-up, and the time between an answer's last byte and the next request.

Ratios are taken within one run, so that they hold on a busy machine; times are CPU of the process and its children, or wall
time where a wait is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[1]


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    return [*asyncio.run(_start_up()), *asyncio.run(_steps())]


def _environ(home: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"LMTUI_HOME": home, "PYTHONPATH": str(ROOT)}


def _cpu_s(command: list[str], environ: dict[str, str], cwd: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environ, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _start_up(rounds: int = 5) -> list[Figure]:
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        async with ScriptedServer(Scenario((ScriptedTurn("hello"),))) as server:
            run = [sys.executable, "-m", "lmtui", "run", "--url", server.url, "hi"]
            bare = [sys.executable, "-c", "import openai"]
            for command in (run, bare):
                await asyncio.to_thread(_cpu_s, command, _environ(home), folder)
            for _ in range(rounds):
                floor = await asyncio.to_thread(_cpu_s, bare, _environ(home), folder)
                ours = await asyncio.to_thread(_cpu_s, run, _environ(home), folder)
                ratios.append(ours / floor)
    return [Figure("one answer, CPU ÷ `import openai`", statistics.median(ratios), "×", 2.5)]


async def _steps(count: int = 200) -> list[Figure]:
    """Play 200 steps and take, for each, the time from the answer's end to the next request beyond the tool's own time."""
    turns = tuple(_step(number) for number in range(count))
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            (Path(folder) / f"f{number}.txt").write_text(f"file {number}\n" * 20)
        async with TimedServer(Scenario((*turns, ScriptedTurn("end")))) as server:
            command = ["-m", "lmtui", "run", "--mode", "auto", "--url", server.url, "--output", "stream-json", "go"]
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                cwd=folder,
                env=_environ(home),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            out, _ = await process.communicate()
        lines = (json.loads(line) for line in out.splitlines())
        tools_ms = [line["elapsed_ms"] for line in lines if line["kind"] == "tool_call_finished"]
    gaps_ms = [
        (asked - answered) * 1000
        for answered, asked in zip(server.answered, (request.at_s for request in server.requests[1:]), strict=False)
    ]
    own_ms = [max(0.0, gap - tool) for gap, tool in zip(gaps_ms, tools_ms, strict=False)]
    steady = own_ms[1:]
    growth = statistics.median(steady[-10:]) / statistics.median(steady[:10])
    return [
        Figure("step: last byte → next request, beyond the tool", statistics.median(steady[:50]), "ms", 10.0),
        Figure("step: last 10 of 200 ÷ first 10", growth, "×", 1.2),
    ]


def _step(number: int) -> ScriptedTurn:
    if number % 2:
        return ScriptedTurn(calls=(ScriptedCall("shell", {"command": f"echo {number}"}),))
    return ScriptedTurn(calls=(ScriptedCall("read", {"path": f"f{number}.txt"}),))


class TimedServer(ScriptedServer):
    """A scripted server that notes when each answer has gone."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.answered: list[float] = []

    async def _complete(self, writer: asyncio.StreamWriter, body: dict[str, object]) -> bool:
        is_kept = await super()._complete(writer, body)
        self.answered.append(time.monotonic())
        return is_kept
