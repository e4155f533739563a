"""A plan in words: what became of it in a line, and its steps as any front end reads them out."""

from __future__ import annotations

from collections.abc import Iterator

from lmtui.core.clean import clean_line, reveal_line
from lmtui.core.counting import counted
from lmtui.core.events import Event
from lmtui.core.look_alikes import plan_warning
from lmtui.core.model_events import Reminder
from lmtui.core.plan import PlanStep
from lmtui.core.plan_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.plan_mode import TOPIC
from lmtui.core.proposal_grants import Grants
from lmtui.core.proposals import STEP_RISKS, Proposal

_OUTCOMES = {
    PlanOutcome.APPROVED: "the plan was approved",
    PlanOutcome.REVISED: "the plan is to be changed",
    PlanOutcome.REJECTED: "the plan was rejected",
    PlanOutcome.REPLACED: "the model proposes another plan",
}


def plan_event_words(event: Event) -> str:
    """Return what happened to a plan in a line, empty for any other event."""
    match event:
        case PlanProposed(proposal=proposal):
            return f"a plan was proposed: {clean_line(proposal.title)}, {counted(len(proposal.steps), 'step')}"
        case PlanDecided():
            return _decided(event)
        case Reminder(topic=topic, text=text) if topic == TOPIC:
            what = clean_line(text).lstrip("[").partition(":")[0].partition(",")[0]
            return f"lmtui told the model: {what}"
        case _:
            return ""


def _decided(event: PlanDecided) -> str:
    text = _OUTCOMES[event.outcome]
    if event.by == "flag":
        text += " by --approve"
    if event.edited is not None:
        text += " as you changed it"
    if event.rules:
        text += f"; allowed in this session: {counted(len(event.rules), 'rule')}"
    if event.feedback and event.outcome is PlanOutcome.REJECTED:
        text += f": {clean_line(event.feedback)}"
    return text


def proposal_lines(proposal: Proposal) -> Iterator[str]:
    """Yield a plan line by line, with hidden characters named: everything in it is a model's words."""
    yield f"plan: {reveal_line(proposal.title)}"
    if proposal.goal:
        yield f"goal: {reveal_line(proposal.goal)}"
    for step in proposal.steps:
        yield from step_lines(step)
    for risk in proposal.risks:
        yield f"watch out: {reveal_line(risk)}"
    if found := plan_warning(proposal):
        yield found


def step_lines(step: PlanStep) -> Iterator[str]:
    """Yield a step, what it names and how it is checked."""
    more = [f"risk {step.risk}"] if step.risk != STEP_RISKS[0] else []
    more += [f"after {', '.join(map(str, step.depends_on))}"] if step.depends_on else []
    yield f"{step.id}. {reveal_line(step.text)}" + (f" ({', '.join(more)})" if more else "")
    if step.files:
        yield f"   files: {', '.join(map(reveal_line, step.files))}"
    yield from (f"   runs: {reveal_line(command)}" for command in step.commands)
    if step.verification:
        yield f"   check: {reveal_line(step.verification)}"


def grant_lines(grants: Grants) -> Iterator[str]:
    """Yield what a plan would be allowed, and what of it would not."""
    yield from (f"allow {reveal_line(rule)}" for rule in grants.rules)
    yield from (f"not allowed: {reveal_line(each.name)} ({each.why})" for each in grants.left_out)
