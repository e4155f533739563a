"""The question about a change with several hunks: each is accepted or rejected, and only what was accepted is applied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual.content import Content

from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.commands import Command, Scope, closing, of_scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import parse_patch
from lmtui.tui.modals import approval_words as words
from lmtui.tui.modals.approval import Approval, Decided, RequestQuestion, worded
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.session_state import SessionState

_MORE = "more of this hunk below: scroll to its end before you accept it"
_MORE_OF_ALL = "more below: scroll to its end before you accept all of it"


def approval_of(request: ApprovalRequested, state: SessionState, *, now: Callable[[], datetime]) -> ConsentDialog[Decided]:
    """Return the dialog that fits a request: hunk by hunk only where the engine can apply just the hunks that are shown."""
    is_divisible = request.hunks > 1 and request.hunks == sum(
        len(file.hunks) for file in parse_patch(request.diff, request.path)
    )
    return ConsentDialog((HunkApproval if is_divisible else Approval)(request, state, now), now)


class HunkApproval(RequestQuestion):
    """Shows a change hunk by hunk.  It stays until each is decided, or all of it is answered at once."""

    scope: ClassVar[Scope] = Scope.HUNKS
    guarded: ClassVar[tuple[str, ...]] = ("hunks.all", "hunks.session", "hunks.always")

    def __init__(self, request: ApprovalRequested, state: SessionState, now: Callable[[], datetime]) -> None:
        self._decided: dict[int, bool] = {}
        self._seen: set[int] = set()
        self._diff = DiffView(heading=self._heading)
        super().__init__(request, self._diff)
        self._whole = Approval(request, state, now, self._diff)

    def begin(self) -> None:
        """Show the change."""
        self._whole.dialog = self.dialog
        self._whole.begin()

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
        """Return what can be answered now, with how many hunks would be applied."""
        left_out = self._whole.left_out() | (set() if self._accepted else {"hunks.done"})
        applied = f"apply {len(self._accepted)}, leave out {self.request.hunks - len(self._accepted)}"
        found = [worded(each, self._diff) for each in of_scope(self.scope) if each.id not in left_out]
        return [*(replace(each, hint=applied) if each.id == "hunks.done" else each for each in found), closing("stop the turn")]

    def dimmed(self) -> Collection[str]:
        """Return what does not count yet: a hunk must have been seen, and a yes to all of it needs all of it."""
        single = () if self._is_hunk_live else ("hunks.yes",)
        return (*super().dimmed(), *single, *(() if self.dialog.is_awake else ("hunks.done",)))

    def more_text(self) -> str:
        """Say what is to be seen of this hunk."""
        self._note_seen()
        return _MORE_OF_ALL if self._current in self._seen else _MORE

    def at_another_part(self) -> None:
        """Mark the hunk that the reader is at."""
        self._diff.lay_out()
        self.dialog.draw()

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does: those about the whole change, and those about one hunk."""
        whole = self._whole.handlers()
        of_all = {"all": "once", "none": "no", "batch": "all"}
        same = ("because", "mode", "split", "session", "always", "why", "later")
        return {
            **{f"hunks.{name}": whole[f"approve.{of_all.get(name, name)}"] for name in (*of_all, *same)},
            "hunks.yes": self._accept,
            "hunks.no": self._reject,
            "hunks.next": lambda: self._go_to(self._current + 1),
            "hunks.previous": lambda: self._go_to(self._current - 1),
            "hunks.done": self._apply,
        }

    @property
    def _current(self) -> int:
        return self._diff.scroller.current_hunk - 1

    @property
    def _accepted(self) -> tuple[int, ...]:
        return tuple(number for number, is_accepted in sorted(self._decided.items()) if is_accepted)

    @property
    def _is_hunk_live(self) -> bool:
        self._note_seen()
        return self._current in self._seen and self.dialog.is_awake

    def _note_seen(self) -> None:
        """Take note of the hunks whose end is in view."""
        diff = self._diff
        if not self.dialog.fit.is_done or not diff.size.height:
            return
        top, bottom = diff.scroll_offset.y, diff.scroll_offset.y + diff.size.height
        self._seen |= {number for number, end in enumerate(diff.source.layout.hunk_ends) if top < end <= bottom}

    def _accept(self) -> None:
        """Accept the marked hunk, once it was seen."""
        if self._is_hunk_live:
            self._decide(is_accepted=True)

    def _reject(self) -> None:
        if self.dialog.is_awake:
            self._decide(is_accepted=False)

    def _apply(self) -> None:
        """Apply what was accepted so far, and nothing else."""
        if self._accepted and self.dialog.is_awake:
            self._send()

    def _decide(self, *, is_accepted: bool) -> None:
        self._decided[self._current] = is_accepted
        open_ones = [number for number in range(self.request.hunks) if number not in self._decided]
        if not open_ones:
            self._send()
            return
        later = [number for number in open_ones if number > self._current]
        self._go_to((later or open_ones)[0])
        self.dialog.restart_delay()

    def _go_to(self, hunk: int) -> None:
        self._diff.scroller.go_to_hunk(hunk)
        self._diff.lay_out()
        self.dialog.draw()

    def _send(self) -> None:
        accepted = self._accepted
        is_all = len(accepted) == self.request.hunks
        _ = self.dialog.dismiss(Answer(Outcome.ONCE, hunks=None if is_all else accepted) if accepted else Answer(Outcome.NO))

    def _heading(self, number: int) -> tuple[str, str]:
        is_marked = number == self._current
        decided = self._decided.get(number)
        if decided is None:
            word, role = "not decided", "warn" if is_marked else "muted"
        else:
            word, role = ("✓ accepted", "good") if decided else ("✗ rejected", "bad")
        text = f"{'▸' if is_marked else ' '} hunk {number + 1} of {self.request.hunks}  {word}"
        return text, f"{role} strong" if is_marked else role
