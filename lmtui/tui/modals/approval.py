"""The questions of a session: before something runs or changes, whole or hunk by hunk, several at once, and about a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, ClassVar

from textual.content import Content
from textual.widgets import Static

from lmtui.commands.work_commands import plan_text, read_plan
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import UsageError
from lmtui.core.event_text import SHELL, dangers_of
from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.permissions.suggested_rules import SCOPE_TEXTS, Grant, grants
from lmtui.core.plan_mode import Grants, PlanApprovals, grant_lines, proposal_lines
from lmtui.core.proposals import Proposal
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EFFECT_TOOL
from lmtui.tui.commands import Scope, key_of
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.diff_view import DiffView, split_word
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.patch import FilePatch, divided, parse_patch
from lmtui.tui.lines.styled_text import STYLES, Line, Span, StyleRole, fit, indent, join_roles, wrap
from lmtui.tui.lines.table import Table
from lmtui.tui.modals import approval_text as texts
from lmtui.tui.modals.approval_text import SCOPE_MEANINGS, request_lines, titled
from lmtui.tui.modals.consent import Question, YesNo
from lmtui.tui.modals.results import AllAnswered, Dismissed
from lmtui.tui.session_state import SessionState
from lmtui.tui.timing import STOP_AGAIN, SecondPress

SPLIT_FROM = 89  # two columns of 44 and the line between them
MOST_SIGNS = 20
SCOPE_CELLS = max(len(word) for word in SCOPE_TEXTS.values()) + 2


class GrantTable(Table[Grant]):
    """Lists what may be granted, the narrowest marked; `about` says all of the marked one."""

    def __init__(self, found: Sequence[Grant], about: Static) -> None:
        super().__init__(_grant_line, id="grants")
        self._about = about
        self.show(found)
        self.styles.height = len(found)

    def on_table_marked(self) -> None:
        """Say what the marked one means."""
        if (grant := self.current) is not None:
            meaning = f"\nallowed without asking {SCOPE_MEANINGS[grant.scope]}, until you revoke it in /rules"
            self._about.update(Content.assemble((escape_invisible_line(grant.rule), "$accent"), (meaning, "$text-muted")))


def _grant_line(grant: Grant, width: int) -> Line:
    scope = SCOPE_TEXTS[grant.scope].ljust(SCOPE_CELLS)
    return (scope, "muted"), (fit(escape_invisible_line(grant.rule), max(0, width - SCOPE_CELLS)), "")


class Batch(YesNo):
    """Lists requests as they were when it was opened; what comes later is not answered by it."""

    guarded = ("confirm.yes",)
    needs_reading = takes_side = True

    def __init__(self, requests: Sequence[ApprovalRequested], state: SessionState) -> None:
        super().__init__(f"{len(requests)} approvals pending", "", "allow all once", "deny all")
        self.body, self.has_delay = PageView(self._lines), True
        self.requests, self._state = tuple(requests), state
        self.is_danger = any(map(dangers_of, requests))
        self._can_allow = not self.is_danger and not any(map(texts.deletes, requests))

    def _lines(self, width: int) -> list[Line]:
        found: list[Line] = []
        for number, request in enumerate(self.requests, 1):
            head, *rest = request_lines(request, self._state, width)
            found += [*([()] if found else []), ((f"{number} of {len(self.requests)}  ", "muted"), *head), *rest]
        return found

    def notes(self) -> Content:
        """Return what a yes means."""
        return Content.styled("Allows each once; no rule is saved", "$text-muted")

    def left_out(self) -> Collection[str]:
        """Return the yes where one is dangerous or deletes files: it is not allowed together with others."""
        return () if self._can_allow else ("confirm.yes",)


Decided = Answer | AllAnswered | Dismissed | None


class Approval(Question[Decided]):
    """Shows one request, over the prompt: text that is typed or pasted goes there."""

    scopes: ClassVar[tuple[str, ...]] = (Scope.APPROVAL, Scope.REQUEST, Scope.DIFF)
    guarded: Sequence[str] = ("approve.once", "request.session", "request.always", "approve.try", "approve.edit")
    decisions: Sequence[str] = (
        "approve.once", "request.session", "request.always",
        "approve.no", "request.because", "approve.try",
    )  # fmt: skip
    closing = "Esc stop"

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
        self.takes_side = self._diff is not None
        self.is_danger = bool(dangers_of(request))
        if self.is_danger:
            self.guarded = ("approve.anyway", "approve.try", "approve.edit")
            self.decisions = ("approve.no", "request.because", "approve.edit", "approve.try", "approve.anyway")

    def close(self) -> None:
        """Interrupt the turn on the second request: the first may have been meant for what was open before."""
        if self._stop.take(monotonic()):
            _ = self.dialog.dismiss(Dismissed.STOP)
        else:
            self.dialog.app.notify(STOP_AGAIN, markup=False, timeout=SecondPress.WITHIN_S)

    def leave(self, *, is_typing: bool) -> None:
        """Set it and the others of its session aside."""
        _ = self.dialog.dismiss(Dismissed.TYPING if is_typing else Dismissed.AWAY)

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

    def reasons(self) -> Sequence[str]:
        """Return why it is asked, and what is granted."""
        return texts.explanation(self.request, self.state)

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

    def words(self) -> Mapping[str, str]:
        """Return the word for the other form of the change."""
        return {"diff.split": split_word(is_split=self._diff is not None and self._diff.source.is_split)}

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
            "request.batch": self._review_all,
            "diff.split": self._toggle_split,
        }

    def _toggle_split(self) -> None:
        if self._diff is not None:
            self._diff.toggle_split()
            self.dialog.call_after_refresh(self.dialog.draw)

    def _choose_rule(self) -> None:
        about = Static(markup=False)
        table = GrantTable(grants(self.request), about)

        def grant() -> None:
            if (chosen := table.current) is not None:
                _ = self.dialog.dismiss(Answer(Outcome.ALWAYS, rule=chosen.number, scope=chosen.scope))

        self.dialog.open_inner("Always allow what?", table, "Enter allow always · Esc back", grant, about)
        self.dialog.restart_delay()

    def _edit(self) -> None:
        """Let the command be changed; what was written stays while the question is open."""

        def answered(text: str, result: Decided) -> None:
            if result == Answer(Outcome.ONCE):
                result = Answer(Outcome.ONCE, edited=text)
            if result not in (None, Dismissed.TYPING, Dismissed.AWAY):
                _ = self.dialog.dismiss(result)

        def run(text: str) -> None:
            edited = replace(self.request, text=text, can_try=False)
            if self.is_danger and text == self.request.text:
                self.dialog.close_inner()  # it has its own key
            elif dangers_of(edited):
                self.dialog.ask(Approval(edited, self.state), partial(answered, text))
            elif text.strip():
                _ = self.dialog.dismiss(Answer(Outcome.ONCE, edited=text if text != self.request.text else ""))

        self.dialog.write("approve.edit", "Edit command (the model sees it)", "run once", run, self.request.text)
        self.dialog.restart_delay()

    def _review_all(self) -> None:
        batch = Batch([*self.state.approvals.values()], self.state)
        ids = tuple(request.approval_id for request in batch.requests)

        def answered(is_allowed: bool | None) -> None:
            if is_allowed is not None:
                _ = self.dialog.dismiss(AllAnswered(ids, Answer(Outcome.ONCE if is_allowed else Outcome.NO)))

        self.dialog.ask(batch, answered)

    def _refuse_with_reason(self) -> None:
        verb = "Discard" if self.request.tool == EFFECT_TOOL else "Deny"

        def refuse(reason: str) -> None:
            _ = self.dialog.dismiss(Answer(Outcome.NO, feedback=reason.strip()))

        self.dialog.write("request.because", f"{verb} with reason (sent to the model)", verb.lower(), refuse)


_DECIDED: dict[bool | None, tuple[str, StyleRole, str]] = {
    True: ("accepted", "good", "✓ "), False: ("rejected", "bad", "✗ "), None: ("undecided", "muted", "")
}  # fmt: skip


def is_divisible(request: ApprovalRequested) -> bool:
    """Tell whether the engine can apply just the hunks that are shown."""
    return request.hunks > 1 and request.hunks == sum(len(file.hunks) for file in _divided(request))


def _divided(request: ApprovalRequested) -> tuple[FilePatch, ...]:
    return tuple(divided(file) for file in parse_patch(request.diff, request.path))


class HunkApproval(Approval):
    """Shows a change hunk by hunk.  What was accepted is applied when the user says so, or all of it is answered at once."""

    scopes = (Scope.HUNKS, Scope.REQUEST, Scope.DIFF)
    guarded = ("hunks.yes", "hunks.all", "request.session", "request.always")
    decisions = ("hunks.yes", "hunks.no", "request.because", "hunks.all", "hunks.done", "hunks.none")
    _diff: DiffView

    def __init__(self, request: ApprovalRequested, state: SessionState) -> None:
        self._decided: dict[int, bool] = {}
        self._seen: set[int] = set()
        super().__init__(request, state, DiffView(SPLIT_FROM, heading=self._heading))

    def begin(self) -> None:
        """Show the change, at the first hunk that is not decided."""
        self._diff.show_patches(_divided(self.request))
        if self._decided:
            self.dialog.call_after_refresh(lambda: self._go_to(self._next_open(0)))

    def take_over(self, before: Question[Any]) -> None:
        """Go on with what was decided."""
        super().take_over(before)
        if isinstance(before, HunkApproval):
            self._decided, self._seen = before._decided, before._seen

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

    def left_out(self) -> set[str]:
        """Return the ids of the answers that mean nothing now: there must be something to apply."""
        return super().left_out() | (set() if self._accepted else {"hunks.done"})

    def words(self) -> Mapping[str, str]:
        """Return how many hunks would be applied."""
        applied = f"apply {len(self._accepted)} of {self.request.hunks}"
        return {**super().words(), "hunks.done": applied}

    def is_read(self, answer: str) -> bool:
        """Tell whether the end of the hunk was seen that would be accepted; a yes to all of it needs all of it."""
        if answer != "hunks.yes":
            return super().is_read(answer)
        diff = self._diff
        if self.dialog.fit.is_done and diff.size.height:
            top, bottom = diff.scroll_offset.y, diff.scroll_offset.y + diff.size.height
            self._seen |= {number for number, end in enumerate(diff.source.layout.hunk_ends) if top < end <= bottom}
        return self._current in self._seen

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

    def _decide(self, *, is_accepted: bool) -> None:
        self._decided[self._current] = is_accepted
        self.dialog.picked = ""
        self._go_to(self._next_open(self._current))

    def _next_open(self, at: int) -> int:
        """Return the next hunk from one on that is not decided, else the first one, else the one itself."""
        open_ones = [number for number in range(self.request.hunks) if number not in self._decided]
        return next((number for number in open_ones if number >= at), next(iter(open_ones), at))

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


PlanAnswer = tuple[Callable[[PlanApprovals], None], str]
"""What gives an answer to the plan that was asked about, and what is said then."""


class PlanGrants(YesNo):
    """Lists what a plan would be allowed, and what of it stays asked about."""

    guarded = ("confirm.yes",)
    needs_reading = True

    def __init__(self, grants: Grants) -> None:
        super().__init__("Allow what the plan names, in this session?", "", "allow these and approve", "back")
        self.body, self.has_delay = PageView(lambda width: _grant_lines(grants, width)), True
        self._grants = grants

    def notes(self) -> Content:
        """Return how that ends."""
        return Content.styled("exact matches only, until this session ends or you revoke them in /rules", "$text-muted")

    def left_out(self) -> Collection[str]:
        """Return the yes where there is nothing to allow."""
        return () if self._grants.rules else ("confirm.yes",)


class PlanQuestion(Question[PlanAnswer | Dismissed | None]):
    """Shows a plan and asks what is to become of it.  `grants_of` tells what a plan would be allowed."""

    scopes = (Scope.PLAN,)
    guarded = ("plan.approve", "plan.grant")
    decisions = ("plan.approve", "plan.grant", "plan.revise", "plan.edit", "plan.reject")

    def __init__(self, asked: PlanProposed, grants_of: Callable[[Proposal], Grants]) -> None:
        self._page = PageView(lambda width: plan_lines(self._proposal, width))
        super().__init__(self._page)
        self._asked, self._proposal = asked, asked.proposal
        self._grants_of = grants_of
        self._draft = ""
        self._problem = ""

    def take_over(self, before: Question[Any]) -> None:
        """Go on with what was written."""
        super().take_over(before)
        if isinstance(before, PlanQuestion):
            self._proposal, self._draft, self._problem = before._proposal, before._draft, before._problem

    def headline(self, width: int) -> Content:
        """Return what the plan is for, and how long it is."""
        steps = pluralize(len(self._proposal.steps), "step") + (", changed by you" if self._edited else "")
        return titled(f"Plan: {escape_invisible_line(self._proposal.title)}", steps, "$text-muted", width)

    def notes(self) -> Content:
        """Return what holds until then, or why what was written is not a plan."""
        if self._problem:
            return Content.styled(sanitize(self._problem), "$error")
        return Content.styled("Plan mode: read-only until you approve", "$text-muted")

    @property
    def _edited(self) -> Proposal | None:
        return self._proposal if self._proposal != self._asked.proposal else None

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does."""
        said = f"Plan rejected · {key_of('mode.choose')} leaves plan mode"
        return {
            "plan.approve": lambda: self._approve(()),
            "plan.grant": self._list_grants,
            "plan.edit": lambda: self.dialog.run_worker(self._edit(), group="edit-plan", exclusive=True),
            "plan.revise": lambda: self.dialog.write("plan.revise", "What should change?", "send", self._revise),
            "plan.reject": lambda: self._answer(lambda plans: plans.reject(self._asked.proposal_id), said),
        }

    def close(self) -> None:
        """Set it aside."""
        _ = self.dialog.dismiss(Dismissed.LATER)

    def leave(self, *, is_typing: bool) -> None:
        """Set it aside while the keys go elsewhere."""
        _ = self.dialog.dismiss(Dismissed.TYPING if is_typing else Dismissed.AWAY)

    def _approve(self, rules: tuple[str, ...]) -> None:
        edited = self._edited
        self._answer(lambda plans: plans.approve(self._asked.proposal_id, edited, rules=rules))

    def _answer(self, give: Callable[[PlanApprovals], None], said: str = "") -> None:
        _ = self.dialog.dismiss((give, said))

    def _list_grants(self) -> None:
        """List what would be allowed."""
        grants = self._grants_of(self._proposal)
        self.dialog.ask(PlanGrants(grants), lambda is_sure: self._approve(grants.rules) if is_sure else None)

    async def _edit(self) -> None:
        """Open it in the user's editor; what is written there stays until it is a plan."""
        lead = "".join(f"# {line}\n" for line in self._problem.splitlines())
        before = self._draft or plan_text(self._proposal)
        written = await edit_text(self.dialog.app, lead + before, "plan.yaml", say=self._say)
        if written is None:
            self.dialog.draw()
            return
        self._draft = "\n".join(line for line in written.split("\n") if not lead or f"{line}\n" not in lead)
        try:
            self._proposal, self._draft, self._problem = read_plan(self._draft), "", ""
        except UsageError as error:
            self._problem = f"{error}; edit it again, nothing is lost"
        self._page.show(lambda width: plan_lines(self._proposal, width))
        self.dialog.restart_delay()
        self.dialog.draw()

    def _say(self, text: str) -> None:
        self._problem = text

    def _revise(self, text: str) -> None:
        if text.strip():
            self._answer(lambda plans: plans.revise(self._asked.proposal_id, text.strip()))


def plan_lines(proposal: Proposal, width: int) -> list[Line]:
    """Return a plan as it is asked about: whole, with hidden characters named."""
    found: list[Line] = []
    for text in [*proposal_lines(proposal)][1:]:  # the title is in the head
        is_step, is_part = text[:1].isdecimal(), text.startswith(" ")
        role: StyleRole = "strong" if is_step else "" if is_part else "bad" if text.startswith("warning") else "muted"
        first, *rest = wrap(((text, role),), max(8, width - 3))
        found += [first, *indent(rest, (("   " if is_step or is_part else "", ""),))]
    return found


def _grant_lines(grants: Grants, width: int) -> list[Line]:
    """Return the rules, each whole, and what is left out with its reason."""
    texts = [*grant_lines(grants)] or ["Nothing in this plan can be allowed in advance."]
    return [line for text in texts for line in whole_text(text, width, "accent" if text.startswith("allow ") else "warn")]
