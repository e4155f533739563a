"""From sessions to panels: merges what streams, calls `apply(envelope)` on the panels of the session on screen.

Sessions in the background cost a reduction to facts and nothing more.  No widgets are known here, only the `Panel` protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from lmtui.core import events
from lmtui.core.events import Envelope, Event
from lmtui.core.ports import Session
from lmtui.tui.facts import Facts

FRAME_S = 1 / 30
SSH_FRAME_S = 1 / 10
BUSY_FACTOR = 3


class Panel(Protocol):
    """What shows events: every panel of the workbench."""

    def apply(self, envelope: Envelope) -> None:
        """Draw one event."""

    def clear(self) -> object:
        """Forget everything, for another session."""


class Stream:
    """What is shown but not stored: the pieces since the last durable event that made them void, merged."""

    def __init__(self) -> None:
        self._pieces: list[Envelope] = []

    def __iter__(self) -> Iterator[Envelope]:
        return iter(self._pieces)

    def take(self, envelope: Envelope) -> None:
        """Take in one event of any kind: a piece joins, a durable event makes its pieces void."""
        event = envelope.event
        match event:
            case events.MessageAdded() | events.TurnEnded() | events.RetryScheduled():
                self._pieces = [piece for piece in self._pieces if _outlives(piece.event, event)]
            case events.ToolCallFinished():
                self._pieces = [piece for piece in self._pieces if getattr(piece.event, "call_id", "") != event.call_id]
            case _ if not event.durable:
                merge_into(self._pieces, envelope)
            case _:
                pass


def _outlives(piece: Event, event: Event) -> bool:
    return piece.agent != event.agent or isinstance(piece, events.ToolOutputDelta)


def merge_into(pending: list[Envelope], envelope: Envelope) -> None:
    """Append an event, or join it with the last one where both are pieces of the same stream."""
    if pending:
        joined = _joined(pending[-1].event, envelope.event)
        if joined is not None:
            pending[-1] = replace(envelope, event=joined)
            return
    pending.append(envelope)


def _joined(last: Event, event: Event) -> Event | None:
    if last.agent != event.agent:
        return None
    match last, event:
        case events.TextDelta(), events.TextDelta():
            return replace(event, text=last.text + event.text)
        case events.ThinkingDelta(), events.ThinkingDelta():
            return replace(event, text=last.text + event.text)
        case events.ToolOutputDelta(), events.ToolOutputDelta() if last.call_id == event.call_id:
            return replace(event, text=last.text + event.text)
        case (events.PrefillProgress(), events.PrefillProgress()) | (events.CallProgress(), events.CallProgress()):
            return event
        case _:
            return None


class Feed:
    """One open session: its facts, what streams, and what the panels have not drawn yet."""

    def __init__(self, session: Session, on_event: Callable[[], None]) -> None:
        self.session = session
        self.facts = Facts()
        self.stream = Stream()
        self.pending: list[Envelope] = []
        self.is_shown = False
        self._on_event = on_event
        for envelope in session.history():
            self.facts.apply(envelope)
        self._unsubscribe = session.subscribe(self._receive)

    def close(self) -> None:
        """Stop listening; the session is the caller's to close."""
        self._unsubscribe()

    def replay(self, panels: Iterable[Panel]) -> None:
        """Draw the session from its start into fresh panels, what streams right now included."""
        self.pending.clear()
        for panel in panels:
            panel.clear()
            for envelope in self.session.history():
                panel.apply(envelope)
            for envelope in self.stream:
                panel.apply(envelope)

    def _receive(self, envelope: Envelope) -> None:
        self.facts.apply(envelope)
        self.stream.take(envelope)
        if self.is_shown:
            merge_into(self.pending, envelope)
        self._on_event()


class Router:
    """All open sessions, which of them is on screen, and when the panels draw: at once, then at most 30 times a second."""

    def __init__(
        self,
        schedule: Callable[[float, Callable[[], None]], object],
        on_change: Callable[[], None],
        frame_s: float = FRAME_S,
    ) -> None:
        self.feeds: dict[str, Feed] = {}
        self.active: Feed | None = None
        self.panels: tuple[Panel, ...] = ()
        self._schedule = schedule
        self._on_change = on_change
        self._frame_s = frame_s
        self._is_due = False
        self._free_at = 0.0

    def add(self, session: Session) -> Feed:
        """Listen to a session; one that is known already is returned as it is."""
        feed = self.feeds.get(session.id)
        if feed is None:
            feed = self.feeds[session.id] = Feed(session, self._on_event)
        return feed

    def remove(self, session_id: str) -> None:
        """Stop listening to a session."""
        feed = self.feeds.pop(session_id, None)
        if feed is not None:
            feed.close()
        if feed is self.active:
            self.active = None

    def show(self, feed: Feed) -> None:
        """Put a session on screen."""
        if self.active is not None:
            self.active.is_shown = False
            self.active.pending.clear()
        self.active = feed
        feed.is_shown = True
        feed.replay(self.panels)
        self._on_change()

    def flush(self) -> None:
        """Draw what is pending."""
        self._is_due = False
        started = time.process_time()
        if self.active is not None:
            pending, self.active.pending = self.active.pending, []
            for panel in self.panels:
                for envelope in pending:
                    panel.apply(envelope)
        self._on_change()
        pause_s = max(self._frame_s, BUSY_FACTOR * (time.process_time() - started))
        self._free_at = time.monotonic() + pause_s

    def waiting(self) -> list[Feed]:
        """Return the sessions that wait for an answer, oldest first."""
        return [feed for feed in self.feeds.values() if feed.facts.approvals]

    def _on_event(self) -> None:
        if self._is_due:
            return
        self._is_due = True
        self._schedule(max(0.0, self._free_at - time.monotonic()), self.flush)
