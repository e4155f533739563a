"""The question about a plan that was proposed, and the one about what it would be allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from textual.content import Content

from lmtui.commands.work_commands import plan_text, read_plan
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import UsageError
from lmtui.core.plan_mode import Grants, PlanApprovals, grant_lines, proposal_lines
from lmtui.core.proposals import Proposal
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize
from lmtui.tui.commands import Scope, key_of
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.styled_text import Line, StyleRole, indent, wrap
from lmtui.tui.modals.approval_text import titled
from lmtui.tui.modals.consent import Question, YesNo
from lmtui.tui.modals.results import Dismissed

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
            "plan.revise": lambda: self.dialog.write("plan.revise", "What should change? (sent to the model)", self._revise),
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
