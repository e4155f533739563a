"""When a line view draws: in frames that it asks for itself, spaced so that they never take most of the time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import perf_counter, thread_time
from typing import TypedDict

from textual.widget import Widget

from lmtui.tui.timing import call_after


class WidgetOptions(TypedDict, total=False):
    """What every widget takes by name."""

    id: str | None
    classes: str | None
    disabled: bool


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


class Frames:
    """The frames of one widget: each is asked for, none is drawn while a lot comes in, no timer runs in between."""

    def __init__(self, widget: Widget, draw: Callable[[], None]) -> None:
        self._widget = widget
        self._draw = draw
        self._gate = FrameGate()
        self._is_requested = False
        self._is_held = False

    def request(self) -> None:
        """Draw as soon as the gate allows."""
        if not self._is_requested and not self._is_held and self._widget.is_running:
            self._is_requested = True
            call_after(self._widget, self._gate.wait_s(), self._draw_timed)

    def hold(self, *, is_held: bool) -> None:
        """Draw nothing for a while, or draw again from the next request on."""
        self._is_held = is_held

    def _draw_timed(self) -> None:
        began = thread_time()
        self._is_requested = False
        self._draw()
        self._gate.drawn(thread_time() - began)
