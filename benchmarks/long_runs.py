"""Work of 500 steps in a small window beside the same work in one that never fills, and a model that goes round in a circle.

The model server is scripted, over HTTP; where the script stands is read from the words of each request, so that what a
compaction loses is lost to it too.  Commands run in the process sandbox.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import Figure
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.events import Event, ToolCallFinished, TurnEnded, TurnReason
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

STEPS, FILES, CALLS = 500, 300, 40
_SMALL, _UNLIMITED = 8_192, 10_000_000
_ASKS_FOR_SUMMARY = "[lmtui makes room in your window"


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["LMTUI_HOME"] = home
        return [*asyncio.run(_small_window()), asyncio.run(_circle())]


class LongServer(ScriptedServer):
    """Plays a script whose place is in the words of the request, and writes a summary where one is asked for."""

    def __init__(self, *scenarios: Scenario) -> None:
        super().__init__(*scenarios)
        self.summaries = 0

    def _turn(self, body: dict[str, Any]) -> tuple[Scenario, int, ScriptedTurn]:
        last = body["messages"][-1]
        if _ASKS_FOR_SUMMARY in str(last.get("content", "")):
            self.summaries += 1
            return self._scenarios[0], 0, ScriptedTurn(f"The files are done in order, {self.summaries}: none was left out.")
        return super()._turn(body)


async def _small_window() -> list[Figure]:
    """Do the same work in a small window and in one that never fills."""
    small, summaries = await _requests(_SMALL)
    large, _ = await _requests(_UNLIMITED)
    return [
        Figure(f"{STEPS} steps over {FILES} files in 8k: requests ÷ those in an unlimited window", small / large, "×", 1.1),
        Figure(f"{STEPS} steps over {FILES} files in 8k: requests for a summary", 100 * summaries / small, "%", 5.0),
    ]


async def _requests(window_tokens: int) -> tuple[int, int]:
    """Return how many requests the work took, and how many of them asked for a summary."""
    turns = (*map(_step, range(STEPS)), ScriptedTurn("All steps are done."))
    script = Scenario(turns, window_tokens=window_tokens, goes_by_words=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number in range(FILES):
            (folder / f"f{number:03}.txt").write_text(f"line of file {number}\n" * 40)
        async with LongServer(script) as server:
            ending = await _work(folder, server.url, "Look at each file and write down what it holds.", [])
        missing = [name for name in map(_written, range(STEPS)) if name and not (folder / name).exists()]
        if ending.reason is not TurnReason.DONE or missing:
            raise RuntimeError(f"the work did not come to its end: {ending.reason} {ending.error}, missing: {missing}")
        return len(server.requests), server.summaries


def _written(number: int) -> str:
    """Return the file that a step writes, empty where it writes none."""
    return f"out{number:03}.txt" if number % 5 == 1 else ""


def _step(number: int) -> ScriptedTurn:
    file = number % FILES
    match number % 5:
        case 1:
            text = f"file {file} was looked at in step {number}\n"
            call = ScriptedCall("write", {"path": _written(number), "content": text * 10})
        case 3:
            call = ScriptedCall("shell", {"command": f"head -5 f{file:03}.txt; echo part {number}"})
        case _:
            call = ScriptedCall("read", {"path": f"f{file:03}.txt"})
    return ScriptedTurn(f"Step {number:03} of it.", calls=(call,))


async def _circle() -> Figure:
    """Let a model make the same call again and again."""
    same = ScriptedCall("shell", {"command": "echo the same"})
    turns = tuple(ScriptedTurn(f"Attempt {number} of many.", calls=(same,)) for number in range(CALLS))
    events: list[Event] = []
    with tempfile.TemporaryDirectory() as folder:
        async with ScriptedServer(Scenario(turns)) as server:
            ending = await _work(Path(folder), server.url, "Try it.", events)
    if ending.reason is not TurnReason.LIMIT:
        raise RuntimeError(f"the circle ended otherwise: {ending.reason} {ending.error}")
    ran = sum(isinstance(event, ToolCallFinished) for event in events)
    return Figure(f"{CALLS} identical calls: made before the turn ends", float(ran), "", 5.0)


async def _work(folder: Path, url: str, task: str, events: list[Event]) -> TurnEnded:
    """Give one task and return how it ended; `events` takes all that happened."""
    config = Config(sandbox="process", mode="auto", max_retries=0, url=url, max_iterations=2 * STEPS, compact_at=0)
    runtime = Runtime(folder, config)
    try:
        session = await runtime.new_session()
        session.subscribe(lambda envelope: events.append(envelope.event))
        session.submit(task)
        await session.wait_idle()
        return next(event for event in reversed(events) if isinstance(event, TurnEnded))
    finally:
        await runtime.close()
