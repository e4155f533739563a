"""The question about a change with several hunks: each is accepted or rejected, and only what was accepted is applied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content

from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.commands import Command, Scope, bindings
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.patch import parse_patch
from lmtui.tui.modals import approval_words as words
from lmtui.tui.modals.approval import Approval
from lmtui.tui.session_state import SessionState

_MORE = "more of this hunk below: scroll to its end before you accept it"
_MORE_OF_ALL = "more below: scroll to its end before you accept all of it"


def approval_of(request: ApprovalRequested, facts: SessionState, *, now: Callable[[], datetime]) -> Approval:
    """Return the dialog that fits a request: hunk by hunk only where the engine can apply just the hunks that are shown."""
    is_divisible = request.hunks > 1 and request.hunks == sum(
        len(file.hunks) for file in parse_patch(request.diff, request.path)
    )
    return (HunkApproval if is_divisible else Approval)(request, facts, now=now)


class HunkApproval(Approval, inherit_bindings=False):
    """Shows a change hunk by hunk.  It stays until each is decided, or all of it is answered at once."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.HUNKS), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.HUNKS
    GUARDED: ClassVar[tuple[str, ...]] = ("hunks.all", "hunks.session", "hunks.always")

    def __init__(self, request: ApprovalRequested, facts: SessionState, *, now: Callable[[], datetime]) -> None:
        self._decided: dict[int, bool] = {}
        self._seen: set[int] = set()
        self._diff = DiffView(heading=self._heading)
        super().__init__(request, facts, now=now)

    def make_body(self, request: ApprovalRequested) -> VirtualLineView:
        """Return the change with a heading above each hunk."""
        del request
        return self._diff

    def headline(self, width: int) -> Content:
        """Return who asks for what, and which hunk is marked."""
        place = f"hunk {self._diff.scroller.current_hunk} of {self.request.hunks}"
        return words.titled(words.question(self.request), place, "$text-muted", width)

    def notes(self) -> Content:
        """Return how much there is, what was answered so far, and what happens to the rest."""
        accepted = sum(self._decided.values())
        left = self.request.hunks - len(self._decided)
        said = f"{accepted} accepted · {len(self._decided) - accepted} rejected · {left} open: not applied unless accepted"
        return Content.styled(f"{words.conditions(self.request)} · {said}", "$text-muted")

    def choices(self) -> Sequence[Command]:
        """Return what can be answered now."""
        hidden = set() if self._accepted else {"hunks.done"}
        hidden |= set() if self.request.suggested_rule else {"hunks.session", "hunks.always"}
        return [each for each in super().choices() if each.id not in hidden]

    def worded(self, each: Command) -> Command:
        """Say how many hunks would be applied."""
        if each.id == "hunks.done":
            return replace(each, hint=f"apply {len(self._accepted)}, leave out {self.request.hunks - len(self._accepted)}")
        return super().worded(each)

    def dimmed(self) -> Collection[str]:
        """Return what does not count yet: a hunk must have been seen, and a yes to all of it needs all of it."""
        single = () if self._is_hunk_live else ("hunks.yes",)
        return (*super().dimmed(), *single, *(() if self.is_awake else ("hunks.done",)))

    def more_text(self) -> str:
        """Say what is to be seen of this hunk."""
        self._note_seen()
        return _MORE_OF_ALL if self._current in self._seen else _MORE

    @on(DiffView.HunkChanged)
    def _at_another_hunk(self) -> None:
        self._diff.lay_out()
        self.draw()

    def action_hunks_yes(self) -> None:
        """Accept the marked hunk, once it was seen."""
        if self._is_hunk_live:
            self._decide(is_accepted=True)

    def action_hunks_no(self) -> None:
        """Reject the marked hunk."""
        if self.is_awake:
            self._decide(is_accepted=False)

    def action_hunks_next(self) -> None:
        """Go to the next hunk."""
        self._go_to(self._current + 1)

    def action_hunks_previous(self) -> None:
        """Go to the hunk before."""
        self._go_to(self._current - 1)

    def action_hunks_done(self) -> None:
        """Apply what was accepted so far, and nothing else."""
        if self._accepted and self.is_awake:
            self._send()

    @property
    def _current(self) -> int:
        return self._diff.scroller.current_hunk - 1

    @property
    def _accepted(self) -> tuple[int, ...]:
        return tuple(number for number, is_accepted in sorted(self._decided.items()) if is_accepted)

    @property
    def _is_hunk_live(self) -> bool:
        self._note_seen()
        return self._current in self._seen and self.is_awake

    def _note_seen(self) -> None:
        """Take note of the hunks whose end is in view."""
        diff = self._diff
        if not self.is_fitted or not diff.size.height:
            return
        top, bottom = diff.scroll_offset.y, diff.scroll_offset.y + diff.size.height
        self._seen |= {number for number, end in enumerate(diff.source.layout.hunk_ends) if top < end <= bottom}

    def _decide(self, *, is_accepted: bool) -> None:
        self._decided[self._current] = is_accepted
        open_ones = [number for number in range(self.request.hunks) if number not in self._decided]
        if not open_ones:
            self._send()
            return
        later = [number for number in open_ones if number > self._current]
        self._go_to((later or open_ones)[0])
        self.restart_dead_time()

    def _go_to(self, hunk: int) -> None:
        self._diff.scroller.go_to_hunk(hunk)
        self._diff.lay_out()
        self.draw()

    def _send(self) -> None:
        accepted = self._accepted
        is_all = len(accepted) == self.request.hunks
        _ = self.dismiss(Answer(Outcome.ONCE, hunks=None if is_all else accepted) if accepted else Answer(Outcome.NO))

    def _heading(self, number: int) -> tuple[str, str]:
        is_marked = number == self._current
        decided = self._decided.get(number)
        if decided is None:
            word, role = "not decided", "warn" if is_marked else "muted"
        else:
            word, role = ("✓ accepted", "good") if decided else ("✗ rejected", "bad")
        text = f"{'▸' if is_marked else ' '} hunk {number + 1} of {self.request.hunks}  {word}"
        return text, f"{role} strong" if is_marked else role
