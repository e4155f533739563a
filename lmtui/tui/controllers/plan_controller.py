"""What the workbench does about plan mode: asks for a plan, brings the question up, passes the answer on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from textual.content import Content

from lmtui.commands.work_commands import plan_text, read_plan
from lmtui.core.agent_events import PlanDecided, PlanProposed
from lmtui.core.errors import ToolError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.look_alikes import plan_warning
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import PlanStep
from lmtui.core.plan_mode import Grants, PlanApprovals
from lmtui.core.proposals import STEP_RISKS, Proposal
from lmtui.core.sanitize import escape_invisible, escape_invisible_line, pluralize, sanitize, sanitize_line
from lmtui.tui.commands import Command, Scope, closing, command, first_key, of_scope
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.styled_text import Line, StyleRole, indent, wrap
from lmtui.tui.modals.approval_text import titled
from lmtui.tui.modals.consent import ConsentDialog, Question
from lmtui.tui.modals.picker import AskText
from lmtui.tui.router import SessionView
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.widgets.bars import Part
from lmtui.tui.workbench_api import Handler, WorkbenchApi

_RISK_ROLES: dict[str, StyleRole] = {"low": "muted", "medium": "warn", "high": "bad"}
_LABEL_CELLS = 7


PlanAnswer = tuple[Callable[[PlanApprovals], None], str]
"""What gives an answer to the plan that was asked about, and what is said then."""


class PlanGrants(Question[bool]):
    """Lists what a plan would be allowed, and what of it stays asked about."""

    scope: ClassVar[Scope] = Scope.PLAN_GRANTS
    guarded: ClassVar[tuple[str, ...]] = ("grants.yes",)
    decisions: ClassVar[tuple[str, ...]] = ("grants.yes", "grants.no")

    def __init__(self, grants: Grants) -> None:
        super().__init__(PageView(lambda width: grant_lines(grants, width)))
        self._grants = grants

    def headline(self, width: int) -> Content:
        """Return what would be allowed."""
        rules = pluralize(len(self._grants.rules), "rule")
        return titled("Allow what the plan names, in this session?", rules, "$text-muted", width)

    def notes(self) -> Content:
        """Return how that ends."""
        return Content.styled("exact matches only, until this session ends or you revoke them in /rules", "$text-muted")

    def choices(self) -> Sequence[Command]:
        """Return what can be answered."""
        found = [each for each in of_scope(self.scope) if each.id == "grants.no" or self._grants.rules]
        return [*found, closing("back")]

    def values(self) -> Mapping[str, bool]:
        """Return what each answer gives."""
        return {"grants.yes": True, "grants.no": False}


class PlanQuestion(Question[PlanAnswer | None]):
    """Shows a plan and asks what is to become of it.  `grants_of` tells what a plan would be allowed.

    The result is None where it was left for later.
    """

    scope: ClassVar[Scope] = Scope.PLAN
    guarded: ClassVar[tuple[str, ...]] = ("plan.approve", "plan.grant")
    decisions: ClassVar[tuple[str, ...]] = ("plan.approve", "plan.grant", "plan.revise", "plan.reject")

    def __init__(self, asked: PlanProposed, grants_of: Callable[[Proposal], Grants]) -> None:
        self._page = PageView(lambda width: plan_lines(self._proposal, width))
        super().__init__(self._page)
        self.asked = asked
        self._proposal = asked.proposal
        self._grants_of = grants_of
        self._draft = ""
        self._problem = ""

    def headline(self, width: int) -> Content:
        """Return what the plan is for, and how long it is."""
        steps = pluralize(len(self._proposal.steps), "step") + (", changed by you" if self._edited else "")
        return titled(f"Plan: {escape_invisible_line(self._proposal.title)}", steps, "$text-muted", width)

    def notes(self) -> Content:
        """Return what holds until then, or why what was written is not a plan."""
        if self._problem:
            return Content.styled(sanitize(self._problem), "$error")
        return Content.styled("Plan mode: read-only until you approve", "$text-muted")

    def choices(self) -> Sequence[Command]:
        """Return what can be answered."""
        return [*of_scope(self.scope), closing("later")]

    @property
    def _edited(self) -> Proposal | None:
        return self._proposal if self._proposal != self.asked.proposal else None

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does."""
        return {
            "plan.approve": lambda: self._answer_yes(()),
            "plan.grant": self._list_grants,
            "plan.edit": lambda: self.dialog.run_worker(self._edit(), group="edit-plan", exclusive=True),
            "plan.revise": self._revise,
            "plan.reject": self._reject,
        }

    def _answer_yes(self, rules: tuple[str, ...]) -> None:
        edited = self._edited
        self._answer(lambda plans: plans.approve(self.asked.proposal_id, edited, rules=rules))

    def _reject(self) -> None:
        said = f"plan rejected; {first_key(command('mode.choose'))} leaves plan mode"
        self._answer(lambda plans: plans.reject(self.asked.proposal_id), said)

    def _answer(self, give: Callable[[PlanApprovals], None], said: str = "") -> None:
        _ = self.dialog.dismiss((give, said))

    def _list_grants(self) -> None:
        """List what would be allowed."""
        grants = self._grants_of(self._proposal)

        def answered(is_sure: bool | None) -> None:
            if is_sure:
                self._answer_yes(grants.rules)

        self.dialog.ask(PlanGrants(grants), answered)

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

    def _revise(self) -> None:
        """Ask what should be different."""
        ask = AskText("What should change?", placeholder="sent to the model, which proposes a new plan")

        def answered(words: str | None) -> None:
            if words:
                self._answer(lambda plans: plans.revise(self.asked.proposal_id, words))

        _ = self.dialog.app.push_screen(ask, answered)


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


def last_proposal(history: Sequence[Envelope]) -> Proposal | None:
    """Return the plan that was proposed last, as the user changed it."""
    for each in reversed(history):
        if isinstance(each.event, PlanDecided) and each.event.edited is not None:
            return each.event.edited
        if isinstance(each.event, PlanProposed):
            return each.event.proposal
    return None


class PlanController:
    """Answers the commands of plan mode."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._left: set[tuple[str, str]] = set()

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"plan.ask": self._ask, "plan.toggle": self._toggle}

    def sync(self) -> None:
        """Bring up the plan of the session on screen, or put one away that is answered."""
        active, app = self._workbench.active, self._workbench.app
        dialogs = (each for each in app.screen_stack if isinstance(each, ConsentDialog))
        shown = next((each.question for each in dialogs if isinstance(each.question, PlanQuestion)), None)
        if shown is not None:
            views = self._workbench.sessions.views.values()
            is_open = any(shown.asked is view.state.proposal for view in views)
            if not is_open and app.screen is shown.dialog:
                _ = shown.dialog.dismiss(None)
            return
        is_chat_seen = all(each.has_class("-docked") for each in app.screen_stack[1:])
        if active is None or not is_chat_seen or active.state.approvals or active.state.proposal is None:
            return
        if (active.session.id, active.state.proposal.proposal_id) not in self._left:
            self._show(active, active.state.proposal)

    def _ask(self, _: str) -> None:
        active = self._workbench.active
        if active is not None and active.state.proposal is not None:
            self._show(active, active.state.proposal)
        elif active is not None and (asked := last_proposal(active.session.history())) is not None:
            self._read(asked)
        else:
            self._workbench.go_to("plan")

    def _read(self, proposal: Proposal) -> None:
        """Show a plan that was decided on in the side pane."""
        title = [Part("Plan", "$text-muted"), Part(escape_invisible_line(proposal.title), "bold")]
        page = CallPage(title, [Part(pluralize(len(proposal.steps), "step"))], lambda width: plan_lines(proposal, width))
        _ = self._workbench.app.push_screen(OutputScreen(lambda _: page, panes=self._workbench.panes, tab=""))

    def _toggle(self, _: str) -> None:
        active = self._workbench.active
        if active is not None:
            is_on = active.session.mode is Mode.PLAN
            active.session.set_mode(active.state.work.planning.before if is_on else Mode.PLAN)
            words = f"plan mode is off: {active.session.mode}" if is_on else "plan mode: read-only until you approve a plan"
            self._workbench.say(words)

    def _show(self, view: SessionView, asked: PlanProposed) -> None:
        question = ConsentDialog(PlanQuestion(asked, view.session.plans.grants), self._workbench.now, self._workbench.panes)
        question.letters.type_on = self._workbench.type_on
        _ = self._workbench.app.push_screen(question, lambda answer: self._decide(view, asked.proposal_id, answer))

    def _decide(self, view: SessionView, proposal_id: str, answer: PlanAnswer | None) -> None:
        self._workbench.panes.follow_chat()
        if answer is None:
            self._left.add((view.session.id, proposal_id))
            self._workbench.say(f"Set aside · {first_key(command('plan.ask'))} to return")
            return
        give, said = answer
        try:
            give(view.session.plans)
            if said:
                self._workbench.say(said)
        except ToolError as error:
            self._workbench.say(error.full_text(), "error")
