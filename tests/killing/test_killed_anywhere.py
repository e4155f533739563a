from __future__ import annotations

import pytest

from tests.killing.battery import kill_at
from tests.killing.life import JOB_END, NEVER


@pytest.mark.parametrize("place", [3, 139, 287, 376, "wait_set", "plan_proposed", "plan_decided", JOB_END])
async def test_killed_at_an_event_nothing_is_lost_and_nothing_happens_twice(place: int | str) -> None:
    verdict = await kill_at(place)
    assert (verdict.was_killed, verdict.problems) == (True, ())
    assert isinstance(place, str) or verdict.events >= place


async def test_the_sessions_that_are_killed_have_more_than_three_hundred_places() -> None:
    verdict = await kill_at(NEVER)
    assert (verdict.was_killed, verdict.problems) == (False, ())
    assert verdict.events > 300
