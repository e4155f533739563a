from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import MAX_NAMED, MAX_STEPS, MAX_TEXT_CHARS, Proposal, check_proposal, find_problem
from tests.core.plans import proposals
from tests.sets import for_each


def plan(*steps: PlanStep, title: str = "t") -> Proposal:
    return Proposal(title, steps)


def step(number: int, *after: int, risk: str = "low", verification: str = "", files: tuple[str, ...] = ()) -> PlanStep:
    return PlanStep(number, "do", depends_on=after, risk=risk, verification=verification, files=files, commands=("make",))


@given(proposals())
def test_steps_that_wait_only_for_steps_before_them_can_be_carried_out(proposal: Proposal) -> None:
    assert find_problem(proposal) == ""


@for_each(("proposal", "words"), [
    (plan(), "no steps"), (plan(step(1), title=" "), "no title"),
    (plan(*map(step, range(1, MAX_STEPS + 2))), f"31 steps, at most {MAX_STEPS}"),
    (plan(step(1), step(1)), "ids 1 occur more than once"), (plan(step(1, 7)), "step 1 depends on 7, which is not a step"),
    (plan(step(1, 1)), "1 → 1 wait for each other"), (plan(step(1, 3), step(2, 1), step(3, 2)), "wait for each other"),
    (plan(PlanStep(2, "  ")), "step 2 has no description"), (plan(step(0)), "needs an id from 1 on"),
    (plan(step(1, risk="none")), "is one of low, medium, high"),
    (plan(step(1, files=tuple(map(str, range(MAX_NAMED + 1))))), "names more than"),
    (plan(step(1, verification="x" * (MAX_TEXT_CHARS + 1))), "more than 4000 characters"),
    (Proposal("t", (step(1),), "g" * (MAX_TEXT_CHARS + 1)), "too long"),
])  # fmt: skip
def test_what_cannot_be_carried_out_is_named(proposal: Proposal, words: str) -> None:
    with pytest.raises(ToolError, match="this plan cannot be") as caught:
        check_proposal(proposal)
    assert words in str(caught.value)


@given(st.permutations(range(1, 9)))
def test_a_circle_is_found_wherever_it_stands(order: list[int]) -> None:
    following = dict(zip(order, [*order[1:], order[0]], strict=True))
    assert "wait for each other" in find_problem(plan(*(step(each, following[each]) for each in order)))


def test_files_and_commands_are_named_once() -> None:
    found = plan(step(1, files=("a", "b")), step(2, files=("b",)))
    assert (found.files, found.commands) == (("a", "b"), ("make",))
