"""When keys came: faster than a person types (an unbracketed paste), or twice; and work in slices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from time import perf_counter
from typing import TypedDict, TypeVar

from textual.message_pump import MessagePump
from textual.timer import Timer

_LEAST_S = 0.001


def call_after(pump: MessagePump, delay_s: float, callback: Callable[[], object]) -> Timer:
    """Call a function once after a delay, as `MessagePump.set_timer` does, however late it becomes."""
    timer = pump.set_timer(max(_LEAST_S, delay_s), callback)
    timer._skip = False
    return timer


Item = TypeVar("Item")
_SLICE_S, _PAUSE_S = 0.003, 0.004


async def in_slices(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield what an iterator makes; the screen has its time every few milliseconds."""
    end = perf_counter() + _SLICE_S
    for item in items:
        yield item
        if perf_counter() > end:
            await asyncio.sleep(_PAUSE_S)
            end = perf_counter() + _SLICE_S


GAP_S = 0.005
WAIT_S = 0.02
LONG_KEYS = 10
LONG_GAP_S = 0.15  # a large paste is read in pieces, and what was read is drawn between them


STOP_AGAIN = "Esc again to stop"


class SecondPress:
    """Tells the second press of a key soon after the first (seconds, a monotonic clock)."""

    WITHIN_S = 1.5

    def __init__(self) -> None:
        self._first_s = float("-inf")

    def take(self, time_s: float) -> bool:
        """Record a press; return True if it is the second."""
        is_second = time_s - self._first_s < self.WITHIN_S
        self._first_s = float("-inf") if is_second else time_s
        return is_second


class PasteDetector:
    """Follows the times at which keys came (seconds, any clock that goes forward)."""

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._keys = 0
        self.lines = 0

    @property
    def wait_s(self) -> float:
        """How long after its last key a burst may still go on."""
        return LONG_GAP_S if self._keys >= LONG_KEYS else WAIT_S

    def take(self, time_s: float) -> bool:
        """Take note of a key; True where it came right behind the one before."""
        is_close = time_s - self._last_s < (LONG_GAP_S if self._keys >= LONG_KEYS else GAP_S)
        self._last_s = time_s
        self._keys = self._keys + 1 if is_close else 0
        if not is_close:
            self.lines = 0
        return is_close


class WidgetOptions(TypedDict, total=False):
    """What every widget takes by name."""

    id: str | None
    classes: str | None
    disabled: bool
