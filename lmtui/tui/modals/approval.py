"""The question before something runs or changes: one request, what else may be said about it, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content

from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.commands import Command, Scope, bindings, closing, command, first_key, of_scope
from lmtui.tui.facts import Facts
from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.diff_view import DiffView, split_word
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.modals import approval_words as words
from lmtui.tui.modals.batch import Batch
from lmtui.tui.modals.command_edit import CommandEdit
from lmtui.tui.modals.grant import GrantChoice
from lmtui.tui.modals.questions import AskText
from lmtui.tui.modals.reading import Reading
from lmtui.tui.modals.results import AllAnswered
from lmtui.tui.modals.typing_on import TypingOn


class Approval(TypingOn):
    """Shows one request and the others that wait beside it."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APPROVAL), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.APPROVAL
    GUARDED: ClassVar[tuple[str, ...]] = ("approve.once", "approve.session", "approve.always", "approve.edit")

    def __init__(self, request: ApprovalRequested, facts: Facts, *, now: Callable[[], datetime]) -> None:
        super().__init__(self.make_body(request), now)
        self.request = request
        self._facts, self._now = facts, now
        self._draft = request.text

    def make_body(self, request: ApprovalRequested) -> LineView:
        """Return what shows the request: a change line by line, or the text."""
        return DiffView() if words.has_difference(request) else PageView(lambda width: words.body_lines(request, width))

    def on_mount(self) -> None:
        """Show the change."""
        if isinstance(self.body, DiffView):
            self.body.show_diff(self.request.diff, self.request.path)
        super().on_mount()

    def headline(self, width: int) -> Content:
        """Return who asks for what, which of several it is, and where it would run."""
        open_ids = list(self._facts.approvals)
        is_one = len(open_ids) < 2 or self.request.approval_id not in open_ids
        place = "" if is_one else f"{open_ids.index(self.request.approval_id) + 1} of {len(open_ids)}"
        return words.title(self.request, self._facts, place, width)

    def notes(self) -> Content:
        """Return how much, where, within which limits, and what no rule covers."""
        return words.notes(self.request)

    def choices(self) -> Sequence[Command]:
        """Return what can be answered to this request."""
        left_out = {"approve.mode", "hunks.mode"}  # a key that people know, and no answer
        if self.request.tool != words.SHELL:
            left_out.add("approve.edit")
        if not self.request.suggested_rule:
            left_out |= {"approve.session", "approve.always"}
        if len(self._facts.approvals) < 2:
            left_out |= {"approve.all", "hunks.batch"}
        if not (isinstance(self.body, DiffView) and self.body.can_split):
            left_out |= {"approve.split", "hunks.split"}
        found = [self.worded(each) for each in of_scope(self.SCOPE) if each.id not in left_out]
        return [*found, closing("stop the turn")]

    def worded(self, each: Command) -> Command:
        """Return a choice with the word for what it would do now."""
        is_split = isinstance(self.body, DiffView) and self.body.is_split
        return replace(each, hint=split_word(is_split=is_split)) if each.id.endswith(".split") else each

    @on(DiffView.LaidOut)
    def _reword(self) -> None:
        self.draw()

    def action_approve_split(self) -> None:
        """Show the change side by side, or in one column."""
        if isinstance(self.body, DiffView):
            self.body.action_toggle_split()
            self.call_after_refresh(self.draw)

    def action_approve_once(self) -> None:
        """Let it run this once."""
        self._answer(Answer(Outcome.ONCE))

    def action_approve_session(self) -> None:
        """Let it run, and the same again in this session."""
        if self.request.suggested_rule:
            self._answer(Answer(Outcome.SESSION, rule=self.request.suggested_rule))

    def action_approve_always(self) -> None:
        """Ask which rule is to be kept, and for where."""
        found = words.grants(self.request)
        if found and self.is_live:
            _ = self.app.push_screen(GrantChoice(found, self._now), self._granted)

    def _granted(self, grant: words.Grant | None) -> None:
        if grant is not None:
            _ = self.dismiss(Answer(Outcome.ALWAYS, rule=grant.rule, scope=grant.scope))

    def action_approve_edit(self) -> None:
        """Let the command be changed; what was written stays while the question is open."""
        if self.request.tool == words.SHELL and self.is_live:
            _ = self.app.push_screen(CommandEdit(self._draft, self._keep_draft, self._now), self._edited)

    def _keep_draft(self, text: str) -> None:
        self._draft = text

    def _edited(self, text: str | None) -> None:
        if text is not None:
            _ = self.dismiss(Answer(Outcome.ONCE, edited=text if text != self.request.text else ""))

    def action_approve_why(self) -> None:
        """Say why it asks."""
        found = words.explanation(self.request, self._facts)
        _ = self.app.push_screen(Reading("WHY IT ASKS", found))

    def action_approve_all(self) -> None:
        """Show everything that waits, to be answered at once."""
        requests = list(self._facts.approvals.values())
        if len(requests) > 1:
            _ = self.app.push_screen(Batch(requests, self._facts, now=self._now), self._leave_with)

    def _leave_with(self, answered: Answer | AllAnswered | None) -> None:
        if answered is not None:
            _ = self.dismiss(answered)

    def action_approve_mode(self) -> None:
        """Say why the key for plan mode does nothing here."""
        key = first_key(command("plan.toggle"))
        text = f"the mode stays {self._facts.mode or 'as it is'} until this is answered; then {key} changes it"
        self.app.notify(text, markup=False)

    def action_approve_no(self) -> None:
        """Refuse; this needs no dead time, as nothing runs."""
        _ = self.dismiss(Answer(Outcome.NO))

    def action_approve_because(self) -> None:
        """Ask for the reason of a no."""
        ask = AskText("No, because …", placeholder="why not? this goes to the model")

        def refuse(reason: str | None) -> None:
            self._leave_with(Answer(Outcome.NO, feedback=reason) if reason is not None else None)

        _ = self.app.push_screen(ask, refuse)

    def _answer(self, answer: Answer) -> None:
        if self.is_live:
            _ = self.dismiss(answer)
