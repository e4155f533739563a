"""One-shot timers that always fire.

A timer of Textual counts the ticks that it is late for as done: one whose thread is held up for longer than its delay before
it first waits, however short that is, never fires, and what waits for it waits for ever.
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
