from __future__ import annotations

import pytest

from lmtui.tui.timing import FrameGate
from tests.sets import for_each


class Clock:
    def __init__(self) -> None:
        self.now = 10.0

    def __call__(self) -> float:
        return self.now


def test_the_first_frame_after_a_pause_waits_for_nothing() -> None:
    clock = Clock()
    gate = FrameGate({}, clock)
    assert gate.wait_s() == 0
    gate.drawn(0.001)
    clock.now += 1
    assert gate.wait_s() == 0


@for_each(("environ", "cost_s", "wait_s"), [({}, 0.001, 1 / 30), ({"SSH_CONNECTION": "x"}, 0.001, 0.1), ({}, 0.05, 0.15)])
def test_frames_are_spaced_by_place_and_cost(environ: dict[str, str], cost_s: float, wait_s: float) -> None:
    gate = FrameGate(environ, Clock())
    gate.drawn(cost_s)
    assert gate.wait_s() == pytest.approx(wait_s)
