"""One-shot timers that always fire.

Textual's timers count missed ticks as done.  If the thread is busy for longer than the delay before the timer first waits, the
timer never fires, and whatever waits for it waits forever.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.message_pump import MessagePump
from textual.timer import Timer

_LEAST_S = 0.001


def call_after(pump: MessagePump, delay_s: float, callback: Callable[[], object]) -> Timer:
    """Call a function once after a delay, as `MessagePump.set_timer` does, however late it becomes."""
    timer = pump.set_timer(max(_LEAST_S, delay_s), callback)
    timer._skip = False
    return timer
