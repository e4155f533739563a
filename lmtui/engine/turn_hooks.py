"""An agent's hooks, and what they want of the turn under way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lmtui.core.hooks import HookCall, HookEvent, Hooks, HookVerdict


async def _at_once() -> None:
    """Wait for nothing."""


@dataclass(slots=True)
class TurnHooks:
    """An agent's hooks.  `ended_by` is why one of them wants no more of this turn, `held` how often its end was held up.

    `begun` waits until the hooks of the session's start have ended.
    """

    hooks: Hooks | None = None
    begun: Callable[[], Awaitable[None]] = _at_once
    ended_by: str = ""
    held: int = 0

    def wants(self, event: HookEvent) -> bool:
        """Tell whether a hook waits for an event."""
        return self.hooks is not None and self.hooks.wants(event)

    def problems(self) -> Sequence[str]:
        """Return what of them cannot be read or does not hold."""
        return self.hooks.problems() if self.hooks is not None else ()

    async def run(self, call: HookCall) -> HookVerdict:
        """Call those that an event is for."""
        return await self.hooks.run(call) if self.hooks is not None else HookVerdict()

    def another(self) -> TurnHooks:
        """Return the same hooks for another agent of the session."""
        return TurnHooks(self.hooks)

    def begin(self) -> None:
        """Take note that a turn begins."""
        self.ended_by, self.held = "", 0
