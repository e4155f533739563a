"""What the screen costs, measured while it is asked for: frames, bytes, and how long the event loop was blocked."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable

import psutil

YOUNG = 5_000
BATCHES = 2
NEVER_BY_ITSELF = 1_000
ENOUGH = 100_000
COUNT_EVERY = 100  # to count what is set aside takes some ten milliseconds


class GcPolicy:
    """Decides when to collect.  `is_quiet` tells whether a pause would be felt by nobody."""

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        self._is_quiet = is_quiet
        self._looks = 0
        self._living: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Set aside what the program itself is made of."""
        self._set_aside()
        gc.set_threshold(YOUNG, NEVER_BY_ITSELF, NEVER_BY_ITSELF)
        gc.enable()

    def look(self) -> None:
        """Collect what is new, if there is enough of it; cheap where there is not."""
        if gc.get_count()[1] < BATCHES:
            return
        self._looks += 1
        if self._looks % COUNT_EVERY == 0:
            self._count()
        if self._is_due and self._is_quiet():
            gc.unfreeze()
            self._set_aside()
            return
        gc.collect(1)
        gc.freeze()

    def _count(self) -> None:
        now = gc.get_freeze_count()
        self._living = now if self._living is None else self._living
        self._is_due = now - self._living >= ENOUGH

    def _set_aside(self) -> None:
        gc.collect()
        gc.freeze()
        self._living, self._is_due = None, False


BEAT_S = 0.02
SHOW_S = 1.0
KEPT = 3000
STALL_MS = 16.0


class PerfOverlay:
    """Counts from `toggle` to `toggle`; costs nothing else.

    `show` draws a line of words (an empty one hides it), `later` runs something after some seconds, and the two counters
    return how many frames were drawn and how many bytes were written so far.
    """

    def __init__(self, show: Callable[[str], None], frames: Callable[[], int], written: Callable[[], int]) -> None:
        self._show, self._frames, self._written = show, frames, written
        self._task: asyncio.Task[None] | None = None
        self._blocks_ms: deque[float] = deque(maxlen=KEPT)

    @property
    def is_on(self) -> bool:
        """Tell whether it measures."""
        return self._task is not None

    def toggle(self) -> None:
        """Begin to measure and show, or end it."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._show("")
            return
        self._blocks_ms.clear()
        self._task = asyncio.get_running_loop().create_task(self._measure())

    async def _measure(self) -> None:
        process = psutil.Process()
        shown_at, frames, written = time.perf_counter(), self._frames(), self._written()
        cpu_s = time.process_time()
        while True:
            asleep_at = time.perf_counter()
            await asyncio.sleep(BEAT_S)
            now = time.perf_counter()
            self._blocks_ms.append(max(0.0, (now - asleep_at - BEAT_S) * 1000))
            if now - shown_at >= SHOW_S:
                span_s = now - shown_at
                new_frames, new_written, new_cpu_s = self._frames(), self._written(), time.process_time()
                self._show(
                    meter_text(
                        (new_frames - frames) / span_s,
                        (new_written - written) / span_s,
                        (new_cpu_s - cpu_s) / span_s,
                        list(self._blocks_ms),
                        process.memory_info().rss,
                    )
                )
                shown_at, frames, written, cpu_s = now, new_frames, new_written, new_cpu_s


def meter_text(frames_per_s: float, bytes_per_s: float, cpu: float, blocks_ms: list[float], rss_bytes: int) -> str:
    """Return what was measured in one line; the blocks of the loop over the last minute."""
    blocks = sorted(blocks_ms)
    p99 = blocks[int(len(blocks) * 0.99)] if blocks else 0.0
    stalls = sum(each > STALL_MS for each in blocks)
    return (
        f"{frames_per_s:.0f} frames/s · {bytes_per_s:,.0f} B/s · CPU {cpu:.0%} · {rss_bytes / 1_048_576:.0f} MB · "
        f"loop p99 {p99:.0f} ms, longest {blocks[-1] if blocks else 0.0:.0f} ms, {stalls} over {STALL_MS:.0f} ms"
    )
