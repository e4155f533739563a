"""The ways out of a question without an answer; what is typed and is none goes on into the prompt, no letter of it is lost."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from lmtui.core.sessions import Answer
from lmtui.tui.modals.consent import Consent
from lmtui.tui.modals.results import AllAnswered, Left


class TypingOn(Consent[Answer | AllAnswered | Left | None]):
    """A question over the prompt.

    `type_on` takes letters for the prompt.  `was_typing`: the user was at it when the question came up, so that its first
    moment belongs to what they were typing.
    """

    was_typing = False
    type_on: Callable[[str], None] | None = None
    _is_left = False

    def leave_with(self, left: Left) -> None:
        """Close it without an answer."""
        _ = self.dismiss(left)

    def action_approve_later(self) -> None:
        """Leave it waiting."""
        self.leave_with(Left.LATER)

    def action_close_or_stop(self) -> None:
        """Interrupt the turn."""
        self.leave_with(Left.STOP)

    def on_key(self, event: events.Key) -> None:
        """Pass on a letter that was typed into the prompt when the question came, and one that answers nothing."""
        if self.type_on is None or not event.is_printable or not event.character:
            return
        is_late = self.was_typing and not self.is_awake
        if is_late and not self._is_left:
            self.type_on(event.character)
            self.restart_dead_time()
        elif self._is_left or event.key not in self.active_bindings:
            self._leave(event.character)
        else:
            return
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Pass on what is pasted."""
        if self.type_on is not None and event.text:
            event.stop()
            self._leave(event.text)

    def _leave(self, text: str) -> None:
        """Make room for words; those that come before it is gone follow them."""
        assert self.type_on is not None
        self.type_on(text)
        if not self._is_left:
            self._is_left = True
            self.leave_with(Left.TYPING)
