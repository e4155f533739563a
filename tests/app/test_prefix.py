from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import prefix
from benchmarks.prefix import broken, play, reused
from tests.sets import depth


async def test_over_many_steps_every_request_begins_with_the_one_before(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefix, "STEPS", depth(40, prefix.STEPS))
    bodies = await play(workspace)
    assert len(bodies) >= prefix.STEPS
    assert broken(bodies) == 0
    assert reused(bodies) > 0.99
    text = bodies[-1].decode()
    for part in ("and mind number", "by hand", "put back to an earlier state", "not this one", "<file path=", "thing 1"):
        assert part in text, part


def test_a_request_that_does_not_begin_with_the_one_before_is_counted() -> None:
    one = [b'{"messages":[1,2]}', b'{"messages":[1,2,3]}', b'{"messages":[1,2,4]}', b'{"messages":[1,2,4,5]}']
    another = [b'{"messages":[1,7]}', b'{"messages":[1,7,8]}']
    bodies = [one[0], another[0], *one[1:], another[1]]
    assert broken(bodies) == 1
    assert 0.85 < reused(bodies) < 0.95
