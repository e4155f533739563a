"""The questions before something runs or changes: one request, a change hunk by hunk, several at once; and the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static, TextArea

from lmtui.core.event_text import SHELL, dangers_of
from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.permissions.suggested_rules import SCOPE_TEXTS, Grant, grants
from lmtui.core.sanitize import escape_invisible_line
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EFFECT_TOOL
from lmtui.tui.commands import Command, Scope, bindings, closing, command, first_key, of_scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.lines.patch import FilePatch, divided, parse_patch
from lmtui.tui.lines.styled_text import STYLES, Line, Span, StyleRole, fit, join_roles
from lmtui.tui.modals import approval_text as texts
from lmtui.tui.modals.approval_text import SCOPE_MEANINGS, request_lines
from lmtui.tui.modals.consent import DEAD_TIME_S, InputDelay, Question
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import AskText, Reading
from lmtui.tui.modals.results import AllAnswered, Dismissed, VeiledScreen
from lmtui.tui.session_state import SessionState
from lmtui.tui.timing import STOP_AGAIN, SecondPress, call_after
from lmtui.tui.widgets.bars import Verbs

SPLIT_FROM = 89  # two columns of 44 and the line between them
MOST_SIGNS = 20


class CommandEdit(VeiledScreen[bool]):
    """A field with the command; its `text` can be read when it is closed, so that nothing written is lost by going back."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.EDIT, Scope.APP)

    SCOPE: ClassVar[Scope] = Scope.EDIT

    def __init__(self, text: str, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._dead_time = InputDelay(now)
        self._field = TextArea(text, compact=True, highlight_cursor_line=False, show_line_numbers=False, id="command-edit")
        self._field.cursor_blink = False
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("Edit command", classes="box-title", markup=False)
            yield self._field
            yield Static("The model will see the edited command.", classes="hint box-text", markup=False)
            yield self._verbs

    def on_mount(self) -> None:
        self._field.focus()
        self._field.move_cursor(self._field.document.end)
        self._verbs.show([*of_scope(Scope.EDIT), closing("cancel (keeps text)")])
        self._dead_time.restart()

    @property
    def text(self) -> str:
        """Return what is written there."""
        return self._field.text

    def action_edit_send(self) -> None:
        """Run what is written there."""
        if self.text.strip() and self._dead_time.is_over:
            _ = self.dismiss(result=True)

    def action_edit_newline(self) -> None:
        """Begin another line."""
        self._field.insert("\n")


SCOPE_CELLS = max(len(word) for word in SCOPE_TEXTS.values()) + 2


class GrantChoice(ListDialog[Grant, Grant | None]):
    """Lists what may be granted, the narrowest marked; nothing is granted in the first moment."""

    NAME, HEADING, CHOOSING, CLOSING = "grant", "Always allow what?", "allow always", "back"

    def __init__(self, grants: Sequence[Grant], now: Callable[[], datetime]) -> None:
        super().__init__()
        self._grants = grants
        self._dead_time = InputDelay(now)

    def on_mount(self) -> None:
        self.show(self._grants)
        self._dead_time.restart()

    def key(self, row: Grant) -> Grant:
        return row

    def line(self, row: Grant, width: int) -> Line:
        """Return where a rule would apply, and the rule; all of it is below the list."""
        scope = SCOPE_TEXTS[row.scope].ljust(SCOPE_CELLS)
        return (scope, "muted"), (fit(escape_invisible_line(row.rule), max(0, width - SCOPE_CELLS)), "")

    def about(self, row: Grant | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what the marked one means."""
        if row is None:
            return "", ()
        meaning = f"\nallowed without asking {SCOPE_MEANINGS[row.scope]}, until you revoke it in /rules"
        text = Content.assemble((escape_invisible_line(row.rule), "$accent"), (meaning, "$text-muted"))
        return text, self.verbs()

    def act(self) -> None:
        """Grant what is marked."""
        if self.current is not None and self._dead_time.is_over:
            _ = self.dismiss(self.current)


class Explanation(Reading[events.Key]):
    """Says why something is asked and what each answer does; the key of an answer closes it and is the result."""

    def __init__(self, request: ApprovalRequested, state: SessionState, question: Question[Any]) -> None:
        super().__init__("Why am I asked?", texts.explanation(request, state, question.scope))
        self._question = question

    def on_key(self, event: events.Key) -> None:
        ids = {*self._question.decisions, *self._question.guarded}
        if any(each.id in ids and event.key in each.bound_keys for each in self._question.choices()):
            event.stop()
            _ = self.dismiss(event)


class Batch(Question[AllAnswered | None]):
    """Lists requests as they were when it was opened; what comes later is not answered by it."""

    scope: ClassVar[Scope] = Scope.BATCH
    guarded: ClassVar[tuple[str, ...]] = ("batch.once",)
    decisions: ClassVar[tuple[str, ...]] = ("batch.once", "batch.no")
    takes_side = True

    def __init__(self, requests: Sequence[ApprovalRequested], state: SessionState) -> None:
        super().__init__(PageView(self._lines))
        self._requests, self.state = tuple(requests), state
        self.is_danger = any(map(dangers_of, self._requests))
        self._can_allow = not self.is_danger and not any(map(texts.deletes, self._requests))

    def _lines(self, width: int) -> list[Line]:
        found: list[Line] = []
        for number, request in enumerate(self._requests, 1):
            head, *rest = request_lines(request, self.state, width)
            found += [*([()] if found else []), ((f"{number} of {len(self._requests)}  ", "muted"), *head), *rest]
        return found

    def headline(self, width: int) -> Content:
        """Return how many are asked."""
        return Content.styled(f"{len(self._requests)} approvals pending"[:width], "bold $warning")

    def notes(self) -> Content:
        """Return what a yes means."""
        return Content.styled("Allows each once; no rule is saved", "$text-muted")

    def choices(self) -> Sequence[Command]:
        """Return the answers to all of them; what is dangerous or deletes files is not allowed together with others."""
        return [each for each in of_scope(Scope.BATCH) if each.id != "batch.once" or self._can_allow] + [closing("back")]

    def values(self) -> Mapping[str, AllAnswered]:
        """Return what the answers give, for all requests."""
        ids = tuple(request.approval_id for request in self._requests)
        return {"batch.once": AllAnswered(ids, Answer(Outcome.ONCE)), "batch.no": AllAnswered(ids, Answer(Outcome.NO))}


Decided = Answer | AllAnswered | Dismissed | None


class Approval(Question[Decided]):
    """Shows one request, over the prompt: text that is typed or pasted goes there."""

    also: ClassVar[tuple[str, ...]] = (*(each.id for each in of_scope(Scope.REQUEST)), "diff.split")
    scope: ClassVar[Scope] = Scope.APPROVAL
    guarded: ClassVar[tuple[str, ...]] = (
        "approve.once", "request.session", "request.always", "approve.try", "approve.edit", "approve.anyway",
    )  # fmt: skip
    decisions: ClassVar[tuple[str, ...]] = (
        "approve.once", "request.session", "request.always", "approve.try", "approve.no", "request.because", "approve.anyway",
    )  # fmt: skip

    def __init__(
        self,
        request: ApprovalRequested,
        state: SessionState,
        diff: DiffView | None = None,
        body: VirtualLineView | None = None,
    ) -> None:
        self._diff = diff if diff is not None or not texts.has_difference(request) else DiffView(SPLIT_FROM)
        super().__init__(body or self._diff or PageView(lambda width: texts.body_lines(request, width)))
        self.request, self.state = request, state
        self._stop = SecondPress()
        self._draft = request.text
        self.takes_side = self._diff is not None
        self.is_danger = bool(dangers_of(request))

    def close(self) -> None:
        """Interrupt the turn on the second request: the first may have been meant for what was open before."""
        if self._stop.take(monotonic()):
            _ = self.dialog.dismiss(Dismissed.STOP)
        else:
            self.dialog.app.notify(STOP_AGAIN, markup=False, timeout=SecondPress.WITHIN_S)

    def leave_to_type(self) -> None:
        """Close so that the text goes to the prompt."""
        _ = self.dialog.dismiss(Dismissed.TYPING)

    def begin(self) -> None:
        """Show the change."""
        if self._diff is not None:
            self._diff.show_patches(parse_patch(self.request.diff, self.request.path))

    def headline(self, width: int) -> Content:
        """Return who asks for what, which of several it is, and where it would run."""
        return texts.title(self.request, self.state, texts.place_of(self.request, self.state), width)

    def notes(self) -> Content:
        """Return how much, where, within which limits, and what no rule covers."""
        return texts.notes(self.request)

    def preferred(self) -> str:
        """Return the answer that is chosen first: a dangerous command is denied."""
        return "approve.no" if self.is_danger else "approve.once"

    def choices(self) -> Sequence[Command]:
        """Return what can be answered to this request."""
        left_out = self.left_out()
        return [*(worded(each, self._diff) for each in self.commands() if each.id not in left_out), _stopping()]

    def left_out(self) -> set[str]:
        """Return the ids of the answers that mean nothing here."""
        found = {"approve.edit"} if self.request.tool != SHELL else set()
        if not self.request.can_try:
            found.add("approve.try")
        found.add("approve.once" if self.is_danger else "approve.anyway")
        if self.is_danger or not self.request.suggested_rule:
            found |= {"request.session", "request.always"}
        if len(self.state.approvals) < 2:
            found.add("request.batch")
        if self._diff is None or not self._diff.source.can_split:
            found.add("diff.split")
        return found

    def values(self) -> Mapping[str, Decided]:
        """Return what the answers give that need no more words."""
        return {
            "approve.once": Answer(Outcome.ONCE),
            "approve.anyway": Answer(Outcome.ONCE),
            "request.session": Answer(Outcome.SESSION),
            "approve.try": Answer(Outcome.TRY),
            "approve.no": Answer(Outcome.NO),
            "request.later": Dismissed.LATER,
        }

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does."""
        return {
            **super().handlers(),
            "request.always": self._choose_rule,
            "request.because": self._refuse_with_reason,
            "approve.edit": self._edit,
            "request.why": lambda: self.dialog.app.push_screen(Explanation(self.request, self.state, self), self._pass_on),
            "request.batch": lambda: self.dialog.ask(Batch([*self.state.approvals.values()], self.state), self._leave_with),
            "request.mode": self._explain_mode,
            "diff.split": self._toggle_split,
        }

    def _toggle_split(self) -> None:
        if self._diff is not None:
            self._diff.toggle_split()
            self.dialog.call_after_refresh(self.dialog.draw)

    def _choose_rule(self) -> None:
        def granted(grant: Grant | None) -> None:
            if grant is not None:
                _ = self.dialog.dismiss(Answer(Outcome.ALWAYS, rule=grant.number, scope=grant.scope))

        _ = self.dialog.app.push_screen(GrantChoice(grants(self.request), self.dialog.now), granted)

    def _edit(self) -> None:
        """Let the command be changed; what was written stays while the question is open."""
        edit = CommandEdit(self._draft, self.dialog.now)

        def edited(is_sent: bool | None) -> None:
            self._draft = edit.text
            if is_sent:
                _ = self.dialog.dismiss(Answer(Outcome.ONCE, edited=edit.text if edit.text != self.request.text else ""))

        _ = self.dialog.app.push_screen(edit, edited)

    def _pass_on(self, key: events.Key | None) -> None:
        """Answer with a key that was pressed in the explanation, once the question has been there for a moment."""
        if key is not None:
            call_after(self.dialog, DEAD_TIME_S * 1.2, lambda: self.dialog.post_message(events.Key(key.key, key.character)))

    def _leave_with(self, answered: Answer | AllAnswered | None) -> None:
        if answered is not None:
            _ = self.dialog.dismiss(answered)

    def _explain_mode(self) -> None:
        """Say why the key for plan mode does nothing here."""
        key = first_key(command("plan.toggle"))
        text = f"The mode stays {self.state.mode or 'as it is'} until this is answered; then {key} changes it"
        self.dialog.app.notify(text, markup=False)

    def _refuse_with_reason(self) -> None:
        verb = "Discard" if self.request.tool == EFFECT_TOOL else "Deny"
        ask = AskText(f"{verb} with reason", placeholder="Reason (sent to the model)")

        def refuse(reason: str | None) -> None:
            self._leave_with(Answer(Outcome.NO, feedback=reason) if reason is not None else None)

        _ = self.dialog.app.push_screen(ask, refuse)


def _stopping() -> Command:
    return closing(f"{first_key(closing())} stop")


def worded(each: Command, diff: DiffView | None) -> Command:
    """Return a choice with the word for what it would do now."""
    is_split = diff is not None and diff.source.is_split
    return replace(each, hint="one column" if is_split else "two columns") if each.id.endswith(".split") else each


_DECIDED: dict[bool | None, tuple[str, StyleRole, str]] = {
    True: ("accepted", "good", "✓ "), False: ("rejected", "bad", "✗ "), None: ("undecided", "muted", "")
}  # fmt: skip
_MORE = "More of this hunk below: Space scrolls"
_MORE_OF_ALL = "Scroll to the end to accept everything"


def is_divisible(request: ApprovalRequested) -> bool:
    """Tell whether the engine can apply just the hunks that are shown."""
    return request.hunks > 1 and request.hunks == sum(len(file.hunks) for file in _divided(request))


def _divided(request: ApprovalRequested) -> tuple[FilePatch, ...]:
    return tuple(divided(file) for file in parse_patch(request.diff, request.path))


class HunkApproval(Approval):
    """Shows a change hunk by hunk.  What was accepted is applied when the user says so, or all of it is answered at once."""

    scope: ClassVar[Scope] = Scope.HUNKS
    guarded: ClassVar[tuple[str, ...]] = ("hunks.all", "request.session", "request.always")
    decisions: ClassVar[tuple[str, ...]] = (
        "hunks.yes", "hunks.no", "request.because", "hunks.all", "hunks.none", "request.session", "request.always",
        "hunks.done",
    )  # fmt: skip
    moves = "hunk"
    _diff: DiffView

    def __init__(self, request: ApprovalRequested, state: SessionState) -> None:
        self._decided: dict[int, bool] = {}
        self._seen: set[int] = set()
        super().__init__(request, state, DiffView(SPLIT_FROM, heading=self._heading))

    def begin(self) -> None:
        """Show the change."""
        self._diff.show_patches(_divided(self.request))

    def headline(self, width: int) -> Content:
        """Return what is asked, which hunk is marked, and what was decided so far."""
        total = self.request.hunks
        counts = Counter(self._decided.get(number) for number in range(total))
        hunks = [Content.styled(f"Hunk {self._current + 1} of {total}", "$text-muted")]
        if total <= MOST_SIGNS:
            hunks.append(Content("").join(self._sign(number) for number in range(total)))
        said = [(f"{counts[each]} {word}", STYLES[role]) for each, (word, role, _) in _DECIDED.items() if counts[each]]
        counted = Content.styled(" · ", "$text-muted").join([Content.styled(*each) for each in said])
        asked = texts.title(self.request, self.state, "", width)
        return Content("\n").join([asked, texts.beside(Content("  ").join(hunks), counted, width)])

    def _sign(self, number: int) -> Content:
        _, role, sign = _DECIDED[self._decided.get(number)]
        style = "bold $background on $warning" if number == self._current else STYLES[role]
        return Content.styled(f" {sign}{number + 1} ", style)

    def preferred(self) -> str:
        """Return the answer that is chosen first: once each hunk is decided, to apply."""
        is_decided = len(self._decided) == self.request.hunks
        return ("hunks.done" if self._accepted else "hunks.none") if is_decided else "hunks.yes"

    def choices(self) -> Sequence[Command]:
        """Return what can be answered now, with how many hunks would be applied."""
        left_out = self.left_out() | (set() if self._accepted else {"hunks.done"})
        words = {"hunks.done": f"apply {len(self._accepted)} of {self.request.hunks}", "request.because": "reject with reason…"}
        found = [worded(each, self._diff) for each in self.commands() if each.id not in left_out]
        return [*(replace(each, hint=words.get(each.id, each.hint)) for each in found), _stopping()]

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

    def values(self) -> Mapping[str, Decided]:
        """Return what the answers give that are about the whole change."""
        return {**super().values(), "hunks.all": Answer(Outcome.ONCE), "hunks.none": Answer(Outcome.NO)}

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does: those about the whole change, and those about one hunk."""
        return {
            **super().handlers(),
            "hunks.yes": lambda: self._decide(is_accepted=True),
            "hunks.no": lambda: self._decide(is_accepted=False),
            "hunks.next": lambda: self._go_to(self._current + 1),
            "hunks.previous": lambda: self._go_to(self._current - 1),
            "hunks.done": self._apply,
        }

    @property
    def _current(self) -> int:
        return self._diff.scroller.hunk

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

    def _decide(self, *, is_accepted: bool) -> None:
        if is_accepted and not self._is_hunk_live:
            return
        self._decided[self._current] = is_accepted
        self.dialog.picked = ""
        open_ones = [number for number in range(self.request.hunks) if number not in self._decided]
        later = [number for number in open_ones if number > self._current]
        self._go_to((later or open_ones or [self._current])[0])

    def _go_to(self, hunk: int) -> None:
        self._diff.scroller.go_to_hunk(hunk)
        self.at_another_part()

    def _apply(self) -> None:
        hunks = None if len(self._accepted) == self.request.hunks else self._accepted
        _ = self.dialog.dismiss(Answer(Outcome.ONCE, hunks=hunks))

    def _heading(self, number: int) -> Span:
        word, role, sign = _DECIDED[self._decided.get(number)]
        if number != self._current:
            return f"{sign or '  '}Hunk {number + 1}  {word}", role
        return f"▌ Hunk {number + 1}  {word}", join_roles(role if sign else "warn", "strong")
