"""When a line widget may draw again: at once after a pause, then no oftener than frames are worth their cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import perf_counter

_FRAME_S = 1 / 30
_REMOTE_FRAME_S = 1 / 10
_COST_FACTOR = 3
_LONGEST_S = 0.5


class FrameGate:
    """Spaces frames: 30 a second here, 10 over ssh, fewer where a frame costs more than a third of that."""

    def __init__(self, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = perf_counter) -> None:
        self._least_s = _REMOTE_FRAME_S if environ.get("SSH_CONNECTION") else _FRAME_S
        self._clock = clock
        self._next = 0.0

    def wait_s(self) -> float:
        """Return how long the next frame has to wait, 0 for not at all."""
        return max(0.0, self._next - self._clock())

    def drawn(self, cost_s: float) -> None:
        """Note that a frame was drawn just now and what it cost."""
        self._next = self._clock() + min(_LONGEST_S, max(self._least_s, _COST_FACTOR * cost_s))
