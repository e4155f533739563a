from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.plan import (
    MAX_RESULT_CHARS,
    CommandRun,
    Plan,
    PlanStep,
    StepWork,
    TodoStatus,
    adopt_steps,
    blocked_by,
    complete_step,
    current_step,
)

STEPS = (
    PlanStep(1, "look", result="left from before"),
    PlanStep(2, "change", depends_on=(1,), verification="pytest -q"), PlanStep(3, "docs"),
)  # fmt: skip


def test_the_first_step_that_waits_for_nothing_is_begun() -> None:
    plan = adopt_steps(Plan(), (STEPS[1], STEPS[0], STEPS[2]))
    assert [step.status for step in plan.steps] == [TodoStatus.PENDING, TodoStatus.IN_PROGRESS, TodoStatus.PENDING]
    assert plan.steps[1].result == ""


def test_completing_keeps_what_the_check_gave_and_begins_the_next() -> None:
    work = StepWork((CommandRun("pytest -q"),))
    plan = complete_step(complete_step(adopt_steps(Plan(), STEPS), 1), 2, " 14 passed " + "x" * 5_000, work)
    assert plan.steps[1].result.startswith("14 passed")
    assert plan.steps[1].result.endswith("x [`pytest -q`: exit 0]")
    assert (len(plan.steps[1].result), current_step(plan)) == (MAX_RESULT_CHARS, plan.steps[2])
    assert complete_step(plan, 3).open_steps == ()


@pytest.mark.parametrize(("step", "notes", "said"), [
    (2, "ok", "step 2 is not under way; step 1 is"),
    (3, "", "step 3 is not under way"),
    (9, "", r"no step 9 \(there are: 1, 2, 3\)"),
])  # fmt: skip
def test_out_of_order_is_refused_and_says_what_is_next(step: int, notes: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        complete_step(adopt_steps(Plan(), STEPS), step, notes)


def test_a_step_is_not_completed_twice_nor_unchecked_nor_without_a_plan() -> None:
    plan = complete_step(adopt_steps(Plan(), STEPS), 1)
    with pytest.raises(ToolError, match="step 1 is already completed"):
        complete_step(plan, 1)
    with pytest.raises(ToolError, match="step 2 is to be checked: pytest -q"):
        complete_step(plan, 2, "  ")
    with pytest.raises(ToolError, match="no approved plan"):
        complete_step(Plan(), 1)


@pytest.mark.parametrize(("steps", "said"), [
    ((PlanStep(1, "a"), PlanStep(1, "b")), "step 1 is there twice"),
    ((PlanStep(1, "a", depends_on=(2,)),), "step 1 refers to 2"),
    ((PlanStep(1, "a", depends_on=(2,)), PlanStep(2, "b", depends_on=(1,))), "1 → 2 → 1"),
])  # fmt: skip
def test_a_plan_that_cannot_be_carried_out_is_not_adopted(steps: tuple[PlanStep, ...], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        adopt_steps(Plan(), steps)


@given(st.lists(st.lists(st.integers(1, 12), max_size=3), min_size=1, max_size=12))
def test_every_plan_without_a_cycle_can_be_carried_out_to_its_end(wanted: list[list[int]]) -> None:
    steps = [
        PlanStep(number, "s", depends_on=tuple(each for each in ids if each < number)) for number, ids in enumerate(wanted, 1)
    ]
    plan = adopt_steps(Plan(), steps[::-1])
    for _ in steps:
        under_way = current_step(plan)
        assert under_way is not None
        assert (sum(step.status is TodoStatus.IN_PROGRESS for step in plan.steps), blocked_by(plan, under_way)) == (1, [])
        plan = complete_step(plan, under_way.id, "ok")
    assert plan.open_steps == ()
