"""Work of thousands of steps: what the engine adds to each, and whether that stays the same.

The engine stands alone here, between a model that plays steps and a workspace in memory; the log is a real file.  Times are CPU
of the process between an answer and the next request, without what the model itself takes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.report import Figure
from lmtui.core.events import TurnEnded, TurnReason
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, TextChunk, ToolCall, Usage
from lmtui.core.permissions.rules import Mode
from lmtui.core.ports import Limits, Policy
from lmtui.core.servers import ServedModel
from lmtui.core.workspace import ExecResult
from lmtui.engine.agent import ModelAccess
from lmtui.engine.context import ModelSettings
from lmtui.engine.context_budget import ContextBudget
from lmtui.engine.session import EngineSession, SessionParts
from lmtui.store.session_logs import SessionFile
from lmtui.tools.registry import ToolRegistry
from tests.fakes import FakeSandbox

STEPS, FILES, ENDS = 5_000, 300, 100
_SESSION = "20260101_120000_abcdef"
_WINDOWS = ((8_192, 0), (131_072, 0), (131_072, 32_000))


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    found: list[Figure] = []
    for window, threshold in _WINDOWS:
        first, last = asyncio.run(_own_ms(window, threshold))
        name = f"{window // 1024}k window" + (f", room made above {threshold // 1000}k tokens" if threshold else "")
        found.append(Figure(f"step, {name}: the engine's own time, the last {ENDS} of {STEPS:,}", last, "ms", 10.0))
        found.append(Figure(f"step, {name}: last {ENDS} of {STEPS:,} ÷ first {ENDS}", last / first, "×", 1.2))
    return found


async def _own_ms(window_tokens: int, threshold_tokens: int) -> tuple[float, float]:
    """Return what the engine added to a step at the beginning of a session and at the end of a long one.

    Both are measured in turn, a step of one and a step of the other: a busy machine slows both.
    """
    baton = Baton()
    late = StepModel(STEPS, window_tokens, partial(baton.hand_over, 0), STEPS - ENDS)
    early = StepModel(ENDS, window_tokens, partial(baton.hand_over, 1))
    endings: list[TurnReason] = []
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        sessions = [make_session(model, Path(folder), threshold_tokens) for model, folder in ((late, one), (early, other))]
        for session in sessions:
            session.subscribe(lambda each: endings.append(each.event.reason) if isinstance(each.event, TurnEnded) else None)
        sessions[0].submit("Do all the steps.")
        await baton.is_waited_for.wait()
        gc.collect()
        gc.freeze()
        sessions[1].submit("Do all the steps.")
        for session in sessions:
            await session.wait_idle()
            await session.close()
        gc.unfreeze()
    if endings != [TurnReason.DONE] * 2:
        raise RuntimeError(f"the work did not come to its end: {endings}")
    return statistics.mean(early.own_ms), statistics.mean(late.own_ms[-ENDS:])


class Baton:
    """Lets two models answer in turn, until one of them is at its end."""

    def __init__(self) -> None:
        self._turns = (asyncio.Event(), asyncio.Event())
        self.is_waited_for = asyncio.Event()

    async def hand_over(self, mine: int, *, is_last: bool) -> None:
        """Let the other answer, and wait until it is this one's turn again."""
        self._turns[1 - mine].set()
        self.is_waited_for.set()
        if not is_last:
            await self._turns[mine].wait()
            self._turns[mine].clear()


def make_session(model: StepModel, folder: Path, threshold_tokens: int = 0) -> EngineSession:
    """Return a session over a model that plays steps."""
    parts = SessionParts(
        id=_SESSION,
        log=SessionFile(folder / f"{_SESSION}.jsonl"),
        provider=model,
        toolbox=ToolRegistry("/home/me/project"),
        sandbox=_workspace(),
        policy=Policy(Mode.AUTO, (), is_attended=True),
        main=ModelSettings("model"),
        model=ModelAccess(window=ContextBudget(threshold_tokens=threshold_tokens)),
        limits=Limits(max_iterations=0),
        now=lambda: datetime.now(UTC),
        monotonic=time.monotonic,
    )
    return EngineSession(parts)


def _workspace() -> FakeSandbox:
    """Return a workspace in memory, in which each command says something else."""
    files = {f"f{number}.txt": f"line of file {number}\n".encode() * 60 for number in range(FILES)}
    said = {number: f"part {number} has some words\n" * 40 for number in range(STEPS)}
    return FakeSandbox(files, {f"./do part{number}": ExecResult(0, text, 0, 1) for number, text in said.items()})


class HandOver(Protocol):
    """How a model waits for its turn to answer."""

    def __call__(self, *, is_last: bool) -> Awaitable[None]:
        """Let the other answer first; behind the last answer nothing is waited for."""


class StepModel:
    """Plays so many steps, each in words of its own: it reads, writes and runs in turn; `own_ms` are the times between them.

    From step `waits_from` on it answers when it is its turn.
    """

    url = "http://steps/v1"

    def __init__(self, steps: int, window_tokens: int, hand_over: HandOver, waits_from: int = 0) -> None:
        self._steps = steps
        self._hand_over, self._waits_from = hand_over, waits_from
        self._window_tokens = window_tokens
        self._made = 0
        self._answered_s = 0.0
        self._known: dict[int, tuple[Message, int]] = {}
        self.own_ms: list[float] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Answer with the next step."""
        if self._made:
            self.own_ms.append((time.process_time() - self._answered_s) * 1000)
        number, self._made = self._made, self._made + 1
        if number >= self._waits_from:
            await self._hand_over(is_last=number >= self._steps)
        text = f"Step {number} looks at part {number}." if number < self._steps else "All steps are done."
        calls = (ToolCall("call_0", *_call(number)),) if number < self._steps else ()
        usage = Usage(sum(map(self._tokens, request.messages)), 20)
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        completion = Completion(Message(Role.ASSISTANT, text, "", calls), reason, usage, 0.01, 0.02)
        self._answered_s = time.process_time()
        yield TextChunk(text)
        yield completion

    async def served(self, model: str) -> ServedModel:
        """Return the model with its window."""
        return ServedModel(model, window_tokens=self._window_tokens)

    async def close(self) -> None:
        """Hold nothing."""

    def _tokens(self, message: Message) -> int:
        known = self._known.get(id(message))
        if known is None:
            calls = sum(len(call.name) + len(call.arguments) for call in message.tool_calls)
            known = self._known[id(message)] = (message, (len(message.text) + calls) // 4 + 6)
        return known[1]


def _call(number: int) -> tuple[str, str]:
    match number % 4:
        case 0:
            return "read", json.dumps({"path": f"f{number // 4 % FILES}.txt"})
        case 1:
            return "write", json.dumps({"path": f"out{number % FILES}.txt", "content": f"part {number} is here\n"})
        case _:
            return "shell", json.dumps({"command": f"./do part{number}"})
