"""The ways out of a question without an answer; what is typed and is none goes on into the prompt, no letter of it is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from time import monotonic

from textual import events

from lmtui.core.sessions import Answer
from lmtui.tui.bursts import STOP_AGAIN, SecondPress
from lmtui.tui.lines.base import LineView
from lmtui.tui.modals.consent import Consent
from lmtui.tui.modals.results import AllAnswered, Left


class TypingOn(Consent[Answer | AllAnswered | Left | None]):
    """A question over the prompt.

    `was_typing`: the user was typing when the question came up, so the first keys belong to that text.
    """

    was_typing = False

    def __init__(self, body: LineView, now: Callable[[], datetime]) -> None:
        super().__init__(body, now)
        self._stop = SecondPress()

    def leave_with(self, left: Left) -> None:
        """Close it without an answer."""
        _ = self.dismiss(left)

    def leave_to_type(self) -> None:
        """Make room for words."""
        self.leave_with(Left.TYPING)

    def action_approve_later(self) -> None:
        """Leave it waiting."""
        self.leave_with(Left.LATER)

    def action_close_or_stop(self) -> None:
        """Interrupt the turn on the second request: the first may have been meant for what was open before."""
        if self._stop.take(monotonic()):
            self.leave_with(Left.STOP)
        else:
            self.app.notify(STOP_AGAIN, markup=False, timeout=SecondPress.WITHIN_S)

    async def takes_key(self, event: events.Key) -> bool:
        """Take also a letter that was typed into the prompt when the question came."""
        is_late = self.was_typing and not self.is_awake and not self._is_left
        if is_late and self.type_on is not None and event.is_printable and event.character:
            self.type_on(event.character)
            self.restart_dead_time()
            return True
        return await super().takes_key(event)

    def on_paste(self, event: events.Paste) -> None:
        """Pass on what is pasted."""
        if self.type_on is not None and event.text:
            event.stop()
            self._type(event.text)
