from __future__ import annotations

import pytest

from tests.killing.battery import kill_at
from tests.killing.life import JOB_END, NEVER


@pytest.mark.parametrize("place", [3, 47, 139, 233, 287, 376])
async def test_killed_at_an_event_nothing_is_lost_and_nothing_happens_twice(place: int) -> None:
    verdict = await kill_at(place)
    assert verdict.was_killed
    assert verdict.events >= place
    assert not verdict.problems


@pytest.mark.parametrize("kind", ["wait_set", "plan_proposed", "plan_decided"])
async def test_killed_before_it_could_act_on_an_event_the_next_life_does_so_once(kind: str) -> None:
    verdict = await kill_at(kind)
    assert verdict.was_killed
    assert not verdict.problems


async def test_the_sessions_that_are_killed_have_more_than_three_hundred_places() -> None:
    verdict = await kill_at(NEVER)
    assert not verdict.was_killed
    assert not verdict.problems
    assert verdict.events > 300


async def test_a_job_that_is_at_its_end_when_the_program_is_killed_is_not_run_again() -> None:
    verdict = await kill_at(JOB_END)
    assert verdict.was_killed
    assert not verdict.problems
