"""Everything that waits in a session, answered together after all of it was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.commands import Command, Scope, bindings, closing, of_scope
from lmtui.tui.facts import Facts
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.lines.text import Line
from lmtui.tui.modals.approval_words import request_lines
from lmtui.tui.modals.consent import Consent
from lmtui.tui.modals.results import AllAnswered


class Batch(Consent[AllAnswered | None]):
    """Lists requests as they were when it was opened; what comes later is not answered by it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.BATCH), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.BATCH
    GUARDED: ClassVar[tuple[str, ...]] = ("batch.once",)

    def __init__(self, requests: Sequence[ApprovalRequested], facts: Facts, *, now: Callable[[], datetime]) -> None:
        self._requests, self._facts = tuple(requests), facts
        super().__init__(PageView(self._lines), now)

    def _lines(self, width: int) -> list[Line]:
        found: list[Line] = []
        for number, request in enumerate(self._requests, 1):
            head, *rest = request_lines(request, self._facts, width)
            found += [*([()] if found else []), ((f"{number} of {len(self._requests)}  ", "muted"), *head), *rest]
        return found

    def headline(self, width: int) -> Content:
        """Return how many are asked."""
        return Content.styled(f"{len(self._requests)} approvals wait"[:width], "bold $warning")

    def notes(self) -> Content:
        """Return what a yes means."""
        return Content.styled("a yes lets each of them happen once; nothing is granted for later", "$text-muted")

    def choices(self) -> Sequence[Command]:
        """Return the answers to all of them."""
        return [*of_scope(Scope.BATCH), closing("back")]

    def action_batch_once(self) -> None:
        """Let all of them happen once."""
        if self.is_live:
            _ = self.dismiss(AllAnswered(self._ids, Answer(Outcome.ONCE)))

    def action_batch_no(self) -> None:
        """Refuse all of them."""
        _ = self.dismiss(AllAnswered(self._ids, Answer(Outcome.NO)))

    def action_close_or_stop(self) -> None:
        """Go back to the one question."""
        _ = self.dismiss(None)

    @property
    def _ids(self) -> tuple[str, ...]:
        return tuple(request.approval_id for request in self._requests)
