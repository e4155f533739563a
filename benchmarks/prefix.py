"""How much of each prompt the server has read before: a session of 200 steps with everything that a session knows.

The server is scripted and reuses what a server would that keeps each conversation: the bytes that a request has in common with
the one before of the same agent.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import os
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.report import Figure
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.events import ApprovalRequested, Envelope, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Answer, Session
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

STEPS = 200
_TASKS = 8
_CHILD = (
    ScriptedTurn("I look.", calls=(ScriptedCall("ls", {}), ScriptedCall("todo_add", {"description": "look"}))),
    ScriptedTurn("Found.", calls=(ScriptedCall("grep", {"pattern": "line"}),)),
    ScriptedTurn("", calls=(ScriptedCall("report_result", {"status": "ok", "summary": "it is there"}),)),
)


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        os.environ["LMTUI_HOME"] = home
        bodies = asyncio.run(play(Path(folder)))
    return [
        Figure("requests that do not begin with the one before", float(broken(bodies)), "", 0.5),
        Figure("bytes of prompts that were sent before and could not be reused", 100 - 100 * reused(bodies), "%", 5.0),
    ]


def broken(bodies: Sequence[bytes]) -> int:
    """Return how many requests do not begin with the one before of the same conversation."""
    return sum(not after.startswith(before.removesuffix(b"]}")) for before, after in _follow(bodies))


def reused(bodies: Sequence[bytes]) -> float:
    """Return the share of all that was sent again which a server could reuse."""
    again = sum(len(before) for before, _ in _follow(bodies))
    return sum(_shared(before, after) for before, after in _follow(bodies)) / again


def _follow(bodies: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return each request with the next one of its conversation, which is told by its first two messages."""
    talks: dict[str, list[bytes]] = {}
    for body in bodies:
        talks.setdefault(json.dumps(json.loads(body)["messages"][:2]), []).append(body)
    return [pair for talk in talks.values() for pair in pairwise(talk)]


def _shared(before: bytes, after: bytes) -> int:
    """Return how many bytes both begin with."""
    return bisect.bisect_left(range(1, len(before) + 1), 1, key=lambda size: int(before[:size] != after[:size]))


async def play(folder: Path) -> list[bytes]:
    """Play the session in a folder and return its requests as they came to the server."""
    for number in range(20):
        (folder / f"f{number}.txt").write_text(f"line of file {number}\n" * 30)
    child = Scenario(_CHILD, "child", "Your task:", window_tokens=400_000)
    async with ScriptedServer(child, Scenario(tuple(_turns()), window_tokens=400_000)) as server:
        config = Config(sandbox="process", max_retries=0, url=server.url)
        runtime = Runtime(folder, config)
        try:
            await _work(runtime)
        finally:
            await runtime.close()
        return [request.raw for request in server.requests]


async def _work(runtime: Runtime) -> None:
    """Give tasks one after the other, and between and within them do what users do."""
    session = await runtime.new_session()
    session.subscribe(lambda envelope: _answer(session, envelope))
    for number in range(_TASKS):
        if number == 2:
            session.set_mode(Mode.AUTO)
        if number == 3:
            session.waiting.run_command("echo by hand")
            await session.wait_idle()
        if number == 4:
            session.set_mode(Mode.MANUAL)
        if number == 7:
            session.set_mode(Mode.PLAN)
        if number in (5, 6) and session.changes is not None:
            await session.changes.apply(await session.changes.plan_undo())
        session.submit(f"task {number}, see @f{number}.txt")
        await session.wait_idle()


def _answer(session: Session, envelope: Envelope) -> None:
    """Answer what is asked: mostly yes, now and then no; and say something in between."""
    event, loop = envelope.event, asyncio.get_running_loop()
    if isinstance(event, ApprovalRequested):
        no = Answer(Outcome.NO, "not this one")
        loop.call_soon(session.answer, event.approval_id, no if envelope.seq % 5 == 0 else Answer(Outcome.ONCE))
    if isinstance(event, ToolCallFinished) and envelope.seq % 17 == 0 and session.is_running:
        loop.call_soon(session.steer, f"and mind number {envelope.seq}")


def _turns() -> list[ScriptedTurn]:
    """Return the steps: every kind of tool in turn, several calls in one message, and the end of a task now and then."""
    per_task = STEPS // _TASKS
    return [
        ScriptedTurn(f"That was task {number // per_task}.") if number % per_task == per_task - 1 else _step(number)
        for number in range(STEPS)
    ]


def _step(number: int) -> ScriptedTurn:
    name = f"f{number % 20}.txt"
    calls = (
        ScriptedCall("read", {"path": name}),
        ScriptedCall("todo_add", {"description": f"thing {number}"}),
        ScriptedCall("shell", {"command": f"echo {number}"}),
        ScriptedCall("write", {"path": f"new{number}.txt", "content": f"number {number}\n"}),
        ScriptedCall("edit", {"path": name, "search": "line of file", "replace": f"line {number} of file"}),
        ScriptedCall("todo_complete", {"id": 1 + number // 12}),
        ScriptedCall("grep", {"pattern": "line"}),
        ScriptedCall("read", "{not json"),
        ScriptedCall("ls", {}),
        ScriptedCall("nothing", {"known": True}),
        ScriptedCall("delegate", {"objective": f"look at part {number}", "data_hint": "line of file"}),
        ScriptedCall("task_state_update", {"objective": "all of it", "total_count": 9, "processed_count": number % 9}),
    )
    picked = [calls[number % len(calls)], *([calls[number % 7]] if number % 6 == 0 else [])]
    return ScriptedTurn(f"Step {number}.", "thinking of it" if number % 4 == 0 else "", tuple(picked))
