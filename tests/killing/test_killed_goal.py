from __future__ import annotations

import pytest

from tests.killing.goal import BUDGET, TIGHT, kill_goal_at


@pytest.mark.parametrize(("place", "steps"), [(2, BUDGET), (22, BUDGET), (50, BUDGET), (20, TIGHT)])
async def test_a_run_with_a_goal_that_is_killed_continues_and_keeps_its_budget(place: int, steps: int) -> None:
    verdict = await kill_goal_at(place, steps=steps)
    assert verdict.was_killed
    assert verdict.events == place
    assert not verdict.problems
