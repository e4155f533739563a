"""The question about a plan that was proposed, and the one about what it would be allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from textual.content import Content

from lmtui.commands.work_commands import plan_text, read_plan
from lmtui.core.agent_events import PlanProposed
from lmtui.core.errors import UsageError
from lmtui.core.look_alikes import plan_warning
from lmtui.core.plan import PlanStep
from lmtui.core.plan_mode import Grants, PlanApprovals
from lmtui.core.proposals import STEP_RISKS, Proposal
from lmtui.core.sanitize import escape_invisible, escape_invisible_line, pluralize, sanitize, sanitize_line
from lmtui.tui.commands import Scope, key_of
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.styled_text import Line, StyleRole, indent, wrap
from lmtui.tui.modals.approval_text import titled
from lmtui.tui.modals.consent import Question, YesNo
from lmtui.tui.modals.results import Dismissed

_RISK_ROLES: dict[str, StyleRole] = {"low": "muted", "medium": "warn", "high": "bad"}
_LABEL_CELLS = 7


PlanAnswer = tuple[Callable[[PlanApprovals], None], str]
"""What gives an answer to the plan that was asked about, and what is said then."""


class PlanGrants(YesNo):
    """Lists what a plan would be allowed, and what of it stays asked about."""

    guarded = ("confirm.yes",)
    needs_reading = True

    def __init__(self, grants: Grants) -> None:
        super().__init__("Allow what the plan names, in this session?", "", "allow these and approve", "back")
        self.body, self.has_delay = PageView(lambda width: grant_lines(grants, width)), True
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
    if proposal.goal:
        found += [*_texts(proposal.goal, width), ()]
    for step in proposal.steps:
        found += _step(step, width)
    if proposal.risks:
        found.append(())
        for risk in proposal.risks:
            found += _labelled("risk", risk, width, "warn")
    if warned := plan_warning(proposal):
        found += [(), *whole_text(warned, width, "bad")]
    return found


def _step(step: PlanStep, width: int) -> Iterator[Line]:
    details = [f"risk {step.risk}"] if step.risk != STEP_RISKS[0] else []
    details += [f"after {', '.join(map(str, step.depends_on))}"] if step.depends_on else []
    lead = f"{step.id:>2} "
    first, *rest = _texts(step.text, width - len(lead), "strong")
    yield ((lead, "accent"), *first)
    yield from indent(rest, ((" " * len(lead), ""),))
    details_of: tuple[tuple[str, Sequence[str], StyleRole], ...] = (
        ("", (" · ".join(details),), _RISK_ROLES[step.risk]),
        ("files", (", ".join(step.files),), ""),
        ("run", step.commands, ""),
        ("check", (step.verification,), ""),
    )
    for label, values, role in details_of:
        for value in values:
            yield from indent(_labelled(label, value, width - len(lead), role), ((" " * len(lead), ""),)) if value else ()


def _labelled(label: str, text: str, width: int, role: StyleRole = "") -> list[Line]:
    first, *rest = _texts(text, width - _LABEL_CELLS, role)
    space: Line = ((" " * _LABEL_CELLS, ""),)
    return [((label.ljust(_LABEL_CELLS), "muted"), *first), *indent(rest, space)] if label else [first, *rest]


def _texts(text: str, width: int, role: StyleRole = "") -> list[Line]:
    return [line for part in escape_invisible(text).split("\n") for line in wrap(((sanitize_line(part), role),), max(8, width))]


def grant_lines(grants: Grants, width: int) -> list[Line]:
    """Return the rules, each whole, and what is left out with its reason."""
    found: list[Line] = []
    for rule in grants.rules:
        found += whole_text(escape_invisible(rule), width, "accent")
    if not grants.rules:
        found += _texts("Nothing in this plan can be allowed in advance.", width)
    if grants.left_out:
        found += [(), (("not included: these still need approval, or stay denied", "muted"),)]
        for each in grants.left_out:
            found += indent(_texts(f"{each.name}: {each.why}", width - 2, "warn"), (("  ", ""),))
    return found
