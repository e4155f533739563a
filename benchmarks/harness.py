"""A headless app that really renders bytes, and meters in CPU time, so that figures hold on a busy machine.

Textual's own test driver skips the last step of a frame; this one takes it, and counts what would reach the terminal.
Every figure is process CPU time unless its name says otherwise; compare ratios of one run, never absolute values.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Thread
from time import process_time, sleep

from textual import events
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

_SMALLEST_FRAME = 12


class Meter:
    """Counts frames and bytes, and how much CPU went by between a key and the frame that shows it."""

    def __init__(self) -> None:
        self.frames = 0
        self.size_bytes = 0
        self.key_ms: list[float] = []
        self.last_frame_cpu = 0.0
        self._waiting: dict[str, float] = {}
        self._drawn = asyncio.Event()

    def written(self, data: str) -> None:
        """Take what goes to the terminal."""
        self.size_bytes += len(data.encode())
        if len(data) <= _SMALLEST_FRAME:
            return
        self.frames += 1
        self.last_frame_cpu = process_time()
        self._drawn.set()
        if self._waiting and not data.isascii():
            for key in [key for key in self._waiting if key in data]:
                self.key_ms.append((self.last_frame_cpu - self._waiting.pop(key)) * 1000)

    def typed(self, key: str) -> bool:
        """Note that a key goes in; False if the same is still on its way."""
        if key in self._waiting:
            return False
        self._waiting[key] = process_time()
        return True

    async def quiet(self, pause_s: float = 0.06, limit_s: float = 20.0) -> None:
        """Wait for a frame, and then until none follows."""
        wait_s = limit_s
        while True:
            try:
                await asyncio.wait_for(self._drawn.wait(), wait_s)
            except TimeoutError:
                return
            self._drawn.clear()
            wait_s = pause_s


class RenderingDriver(HeadlessDriver):
    """Renders each frame to bytes and hands them to the meter."""

    meter = Meter()

    @property
    def is_headless(self) -> bool:
        """Say no, so that the app renders."""
        return False

    def write(self, data: str) -> None:
        """Count."""
        RenderingDriver.meter.written(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""


@asynccontextmanager
async def running(app: App[None], size: tuple[int, int]) -> AsyncIterator[tuple[Pilot[None], Meter]]:
    """Run an app with the rendering driver and a fresh meter."""
    meter = RenderingDriver.meter = Meter()
    app.driver_class = RenderingDriver
    async with app.run_test(size=size) as pilot:
        app._driver.__class__ = RenderingDriver
        await pilot.pause()
        gc.collect()
        gc.freeze()
        yield pilot, meter
        gc.unfreeze()


async def cost_ms(meter: Meter, action: Callable[[int], object], times: int = 1) -> float:
    """Return the median CPU from an action to the last frame that it causes."""
    found: list[float] = []
    for number in range(times):
        meter._drawn.clear()
        began = process_time()
        action(number)
        await meter.quiet()
        found.append((meter.last_frame_cpu - began) * 1000)
    return statistics.median(found)


class Typist(Thread):
    """Types a distinct character now and then, the way a terminal's input thread does."""

    def __init__(self, app: App[None], meter: Meter, period_s: float = 0.13) -> None:
        super().__init__(daemon=True)
        self._app = app
        self._meter = meter
        self._period_s = period_s
        self._is_on = True

    def run(self) -> None:
        """Type until told to stop."""
        number = 0
        while self._is_on:
            sleep(self._period_s * (0.7 + 0.6 * (number * 0.618 % 1)))
            key = chr(0x100 + number % 0x7F)
            number += 1
            driver = self._app._driver
            if driver is not None and self._meter.typed(key):
                driver.send_message(events.Key(key, key))

    def stop(self) -> None:
        """Type no more."""
        self._is_on = False
        self.join()
