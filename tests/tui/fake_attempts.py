"""Attempts in a list, for screens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lmtui.core.errors import UsageError
from lmtui.core.subagents import SessionAgentRunner
from lmtui.core.workspace import EffectReview
from lmtui.features.attempt_values import Attempt, AttemptState, ranked


class FakeAttempts:
    """Implements `WorkspaceAttempts`."""

    def __init__(self) -> None:
        self.task = ""
        self.rows: list[Attempt] = []
        self.begun: list[tuple[str, int, str]] = []
        self.stopped: list[int] = []
        self.failure: UsageError | None = None
        self.reviewed: EffectReview | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_running(self) -> bool:
        return any(not each.is_over for each in self.rows)

    def listed(self) -> Sequence[Attempt]:
        return self.rows if self.is_running else ranked(self.rows)

    def follow_changes(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def run_agents_in(self, runner: SessionAgentRunner) -> None:
        self.runner = runner

    async def begin(self, task: str, count: int, session_id: str) -> None:
        self.begun.append((task, count, session_id))
        self.task = task
        self.show([Attempt(number) for number in range(1, count + 1)])

    async def again(self, number: int) -> None:
        self.show([*self.rows, Attempt(len(self.rows) + 1, self.rows[number - 1].model)])

    async def stop(self, number: int) -> None:
        self.stopped.append(number)

    async def use(self, number: int, session_id: str) -> Sequence[str]:
        if self.failure is not None:
            raise self.failure
        if not self.rows[number - 1].is_over:
            raise UsageError(f"attempt {number} is still running", "Wait for it to end, or stop it.")
        self.show([replace(each, state=AttemptState.USED) if each.number == number else each for each in self.rows])
        return ()

    def review(self, number: int, session_id: str) -> EffectReview:
        if not self.rows[number - 1].is_over:
            raise UsageError(f"attempt {number} is still running", "Wait for it to end, or stop it.")
        assert self.reviewed is not None, "a test that reviews says what"
        return self.reviewed

    async def discard(self) -> None:
        self.show([])

    def show(self, rows: Sequence[Attempt]) -> None:
        """Have these from now on."""
        self.rows = [*rows]
        for listener in list(self._listeners):
            listener()
