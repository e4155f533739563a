"""The steps of an approved plan: one is under way at a time, and each is checked before the next begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.errors import ToolError
from lmtui.core.ordering import check_order, named, waits_for
from lmtui.core.plan import Plan, PlanStep, TodoStatus
from lmtui.core.step_checks import StepWork, evidence

MAX_RESULT_CHARS = 1_000
NOTHING_DONE = StepWork()


def adopt_steps(plan: Plan, steps: Sequence[PlanStep]) -> Plan:
    """Return the plan with these steps in place of the old ones, the first that waits for nothing under way.

    Raises:
        ToolError: an id is there twice, not known, or part of a cycle.
    """
    check_order(steps, "step")
    fresh = tuple(replace(step, status=TodoStatus.PENDING, result="") for step in steps)
    return begin_next(replace(plan, steps=fresh))


def begin_next(plan: Plan) -> Plan:
    """Return the plan with a step under way, if one can be."""
    step = next_step(plan)
    return _with(plan, replace(step, status=TodoStatus.IN_PROGRESS)) if step and current_step(plan) is None else plan


def current_step(plan: Plan) -> PlanStep | None:
    """Return the step that is under way, None where none is."""
    return next((step for step in plan.steps if step.status is TodoStatus.IN_PROGRESS), None)


def next_step(plan: Plan) -> PlanStep | None:
    """Return the first step that is to do and waits for nothing, None where there is none."""
    waiting = (step for step in plan.steps if step.status is TodoStatus.PENDING)
    return next((step for step in waiting if not blocked_by(plan, step)), None)


def blocked_by(plan: Plan, step: PlanStep) -> list[int]:
    """Return what must be completed before a step can be begun: what it depends on, and its parts."""
    parts = [each.id for each in plan.steps if each.parent == step.id and each.is_open]
    return [*waits_for(step, plan.steps), *parts]


def complete_step(plan: Plan, step_id: int, notes: str = "", work: StepWork = NOTHING_DONE) -> Plan:
    """Return the plan with the step that is under way completed, its check's outcome kept, and the next one begun.

    `notes` is what the model says that the check gave; what was really run is kept behind it, from `work`.

    Raises:
        ToolError: it is not that step's turn, or its check is not told of or was not done; the text says what is.
    """
    step = find_step(plan, step_id)
    if not step.is_open:
        raise ToolError(f"step {step_id} is already completed")
    current = current_step(plan)
    if current is None or current.id != step_id:
        under_way = f"step {current.id} is: complete that first" if current else "none is"
        raise ToolError(f"step {step_id} is not under way; {under_way}")
    if step.verification and not notes.strip():
        raise ToolError(
            f"step {step_id} is to be checked: {step.verification}", "Check it, and say what that gave in verification_notes."
        )
    known = evidence(step, work)
    told = notes.strip()[: max(0, MAX_RESULT_CHARS - len(known) - 3)]
    done = replace(step, status=TodoStatus.COMPLETED, result=f"{told} [{known}]".strip() if known else told)
    return begin_next(_with(plan, done))


def find_step(plan: Plan, step_id: int) -> PlanStep:
    """Return one step.

    Raises:
        ToolError: no such step; the text lists the ids there are.
    """
    for step in plan.steps:
        if step.id == step_id:
            return step
    if not plan.steps:
        raise ToolError("there is no approved plan, so there are no steps", "Your own list is kept by todo_add.")
    raise ToolError(f"no step {step_id} (there are: {named([step.id for step in plan.steps])})")


def _with(plan: Plan, changed: PlanStep) -> Plan:
    return replace(plan, steps=tuple(changed if step.id == changed.id else step for step in plan.steps))
