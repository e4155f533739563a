"""The hooks that belong to no turn: of a session's start and end, and of what waits for the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING

from lmtui.core.events import ROOT, ApprovalRequested, Envelope, Event, Level, MessageAdded, Notice
from lmtui.core.hooks import HookCall, HookEvent, HookVerdict
from lmtui.core.plan_events import PlanProposed
from lmtui.engine.hooking import tell_model, tell_runs

if TYPE_CHECKING:
    from lmtui.engine.desk import Desk

_END_S = 5.0


class HooksBeside:
    """Calls them.

    Args:
        desk: returns the root agent's.
        emit: takes events from outside a turn; must not raise.
        history: returns the session's events.
    """

    def __init__(
        self, desk: Callable[[], Desk], emit: Callable[[Event], None], history: Callable[[], Sequence[Envelope]]
    ) -> None:
        self._desk = desk
        self._emit = emit
        self._history = history
        self._tasks: set[asyncio.Task[None]] = set()
        self._start: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Say what does not hold, and call the hooks of the session's start; the first turn waits for them."""
        desk = self._desk()
        for problem in desk.hooking.hooks.problems():
            self._emit(Notice(level=Level.WARNING, text=f"Hooks: {problem}"))
        if desk.hooking.wants(HookEvent.SESSION_START):
            self._start = self._spawn(self._started())

    async def begun(self) -> None:
        """Wait until the hooks of the start have ended."""
        if self._start is not None and not self._start.done():
            _ = await asyncio.wait({self._start})

    def follow(self, envelope: Envelope) -> None:
        """Call the hooks that wait for what the user should know, where an event is such a thing."""
        if not self._desk().hooking.wants(HookEvent.NOTIFICATION):
            return
        match envelope.event:
            case ApprovalRequested(tool=tool):
                text, kind = f"lmtui needs your permission to use {tool}", "permission_prompt"
            case PlanProposed():
                text, kind = "lmtui has a plan for you to decide about", "plan_prompt"
            case _:
                return
        facts: dict[str, object] = {"message": text, "title": "lmtui", "notification_type": kind}
        _ = self._spawn(self._beside(HookEvent.NOTIFICATION, facts, kind))

    async def close(self, reason: str = "other") -> None:
        """Call the hooks of the end, for a few seconds at most, and end what still runs."""
        if self._desk().hooking.wants(HookEvent.SESSION_END):
            _ = await self._call(HookEvent.SESSION_END, {"reason": reason}, reason, limit_s=_END_S)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _started(self) -> None:
        is_new = not any(isinstance(envelope.event, MessageAdded) for envelope in self._history())
        source = "startup" if is_new else "resume"
        verdict = await self._call(HookEvent.SESSION_START, {"source": source}, source)
        tell_model(self._desk(), verdict.context, "")

    async def _beside(self, event: HookEvent, facts: dict[str, object], subject: str) -> None:
        _ = await self._call(event, facts, subject)

    async def _call(self, event: HookEvent, facts: dict[str, object], subject: str, limit_s: float = 0.0) -> HookVerdict:
        desk = self._desk()
        call = HookCall(event, facts, subject, mode=str(desk.mode), agent=ROOT, limit_s=limit_s)
        verdict = await desk.hooking.hooks.run(call)
        tell_runs(self._emit, event, verdict, agent=ROOT)
        return verdict

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
