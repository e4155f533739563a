"""What an agent waits for, told by events; and what an answer says of waiting."""

from __future__ import annotations

from datetime import datetime

from lmtui.core.errors import UsageError
from lmtui.core.events import Event, TurnStarted
from lmtui.core.messages import Completion
from lmtui.core.times import as_utc
from lmtui.core.wait_events import Wait, WaitSet, checked_wait, read_wait


class Waits:
    """What one agent waits for, told by events: a wait holds until the next turn starts."""

    def __init__(self) -> None:
        self.current: Wait | None = None
        self._wanted: Wait | None = None
        self._refused = 0

    def apply(self, event: Event) -> None:
        """Take up what an event changes, live and replayed."""
        if isinstance(event, TurnStarted):
            self.current = self._wanted = None
            self._refused = 0
        elif isinstance(event, WaitSet):
            self.current = Wait(as_utc(event.until), event.why)

    def want(self, until: datetime, why: str, now: datetime) -> Wait:
        """Let the turn end behind the calls that run now, to wait.

        Raises:
            UsageError: it cannot be waited that long.
        """
        self._wanted = checked_wait(until, why, now)
        return self._wanted

    def after(self, completion: Completion, now: datetime) -> Wait | str:
        """Return the wait that an answer whose calls were run ends with, else what the model is told, empty for nothing.

        A line that cannot be read is told once in a turn.
        """
        if self._wanted is not None:
            return self._wanted
        if completion.message.tool_calls:
            return ""
        try:
            return read_wait(completion.message.text, now) or ""
        except UsageError as error:
            self._refused += 1
            return f"You do not wait: {error.full_text()}" if self._refused == 1 else ""
