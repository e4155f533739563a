from __future__ import annotations

import pytest

from tests.killing.battery import kill_at


@pytest.mark.parametrize("place", [3, 47, 96, 139, 181, 233, 287])
async def test_killed_at_an_event_nothing_is_lost_and_nothing_happens_twice(place: int) -> None:
    verdict = await kill_at(place)
    assert verdict.was_killed
    assert verdict.events >= place
    assert not verdict.problems


async def test_the_session_that_is_killed_has_more_than_two_hundred_places() -> None:
    verdict = await kill_at(0)
    assert not verdict.was_killed
    assert not verdict.problems
    assert verdict.events > 200


async def test_a_job_that_is_at_its_end_when_the_program_is_killed_is_not_run_again() -> None:
    verdict = await kill_at(-1)
    assert verdict.was_killed
    assert not verdict.problems
