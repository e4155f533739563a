"""A long history on its way to the panels: its end is shown at once, the whole is built behind, a few milliseconds at a time.

What is built behind is exactly what a replay from the first event gives; when it is complete it takes the place of the end
that was shown until then.  No widgets are known here.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol, runtime_checkable

from lmtui.core.events import Envelope, TurnStarted
from lmtui.tui.facts import Facts

DIRECT_EVENTS = 400
_HEAD_EVENTS = 32
_TAIL_EVENTS = 150
_FURTHEST_TAIL = 3000
_EVENTS_A_LOOK = 8


@runtime_checkable
class LoadingPanel(Protocol):
    """A panel that can take a long history behind what it shows."""

    def apply(self, envelope: Envelope) -> None:
        """Draw one event at the end of what is shown."""

    def begin_loading(self) -> None:
        """Expect the whole history from its first event on, through `apply_behind`."""

    def apply_behind(self, envelope: Envelope) -> None:
        """Take one event of the whole history; nothing of it is seen yet."""

    def finish_loading(self) -> None:
        """Show the whole history; the reader stays where he is."""


@runtime_checkable
class HoldingPanel(Protocol):
    """A panel that can take a lot without drawing."""

    def hold_frames(self, *, is_held: bool) -> None:
        """Draw nothing for a while, or again."""


class SimplePanel(Protocol):
    """Any panel."""

    def apply(self, envelope: Envelope) -> None:
        """Draw one event."""


class Replay:
    """The events that the panels have not taken yet, those that happen meanwhile at their end."""

    def __init__(self, history: Sequence[Envelope]) -> None:
        self.facts = Facts()
        self._past = history  # not copied: some of it may be held packed until it is looked at
        self._later: list[Envelope] = []
        self._at = 0
        self._start = tail_start(history)
        gc.freeze()

    @property
    def is_done(self) -> bool:
        """Tell whether all of it was taken."""
        return self._at >= len(self._past) + len(self._later)

    def tail(self) -> list[Envelope]:
        """Return the events that show the end of the conversation."""
        return self._between(self._start, len(self._past) + len(self._later))

    def first_facts(self) -> Facts:
        """Return the facts as far as the beginning and the end of the history tell them."""
        facts = Facts()
        for envelope in (*self._past[: min(_HEAD_EVENTS, self._start)], *self.tail()):
            facts.apply(envelope)
        return facts

    def begin(self, panels: Sequence[SimplePanel]) -> tuple[LoadingPanel, ...]:
        """Let the panels expect a lot, and return those that show the end of it now."""
        found: list[LoadingPanel] = []
        for panel in panels:
            if isinstance(panel, LoadingPanel):
                found.append(panel)
                panel.begin_loading()
            elif isinstance(panel, HoldingPanel):
                panel.hold_frames(is_held=True)
        return tuple(found)

    def append(self, envelope: Envelope) -> None:
        """Take what happens meanwhile."""
        self._later.append(envelope)

    def work(self, panels: Sequence[SimplePanel], budget_s: float) -> bool:
        """Give events to the panels for about so long; True when all were given.

        What they keep of them is for good: frozen, no collection looks through it while the reader waits.
        """
        end = perf_counter() + budget_s
        takers = [panel.apply_behind if isinstance(panel, LoadingPanel) else panel.apply for panel in panels]
        while not self.is_done and perf_counter() < end:
            for envelope in self._between(self._at, self._at + _EVENTS_A_LOOK):
                self.facts.apply(envelope)
                for take in takers:
                    take(envelope)
            self._at += _EVENTS_A_LOOK
        gc.freeze()
        return self.is_done

    def _between(self, begin: int, end: int) -> list[Envelope]:
        count = len(self._past)
        return [*self._past[begin:end], *self._later[max(0, begin - count) : max(0, end - count)]]

    def finish(self, panels: Sequence[SimplePanel]) -> None:
        """Let the panels show all of it."""
        for panel in panels:
            if isinstance(panel, LoadingPanel):
                panel.finish_loading()
            elif isinstance(panel, HoldingPanel):
                panel.hold_frames(is_held=False)


def tail_start(history: Sequence[Envelope]) -> int:
    """Return where the end that is shown first begins: with a turn, if one begins near enough."""
    last = max(0, len(history) - _TAIL_EVENTS)
    for index in range(last, max(0, last - _FURTHEST_TAIL), -1):
        if isinstance(history[index].event, TurnStarted):
            return index
    return last
