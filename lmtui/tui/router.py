"""From sessions to panels: merges what streams, calls `apply(envelope)` on the panels of the session on screen.

Sessions in the background cost a reduction to facts and nothing more.  No widgets are known here, only the `Panel` protocol.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from lmtui.core import events
from lmtui.core.events import Envelope, Event
from lmtui.core.sessions import Session
from lmtui.tui.facts import Facts
from lmtui.tui.replay import DIRECT_EVENTS, Replay

BUSY_FACTOR = 3
MAX_PIECE_CHARS = 65_536
MOST_AT_ONCE = 800
LOAD_SLICE_S = 0.006
LOAD_PAUSE_S = 0.004
OVERDUE_S = 1.0
_LOG = logging.getLogger("lmtui.tui")


class Panel(Protocol):
    """What shows events: every panel of the workbench."""

    def apply(self, envelope: Envelope) -> None:
        """Draw one event."""


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
        case events.ToolOutputDelta(), events.ToolOutputDelta() if (
            last.call_id == event.call_id and len(last.text) < MAX_PIECE_CHARS
        ):
            return replace(event, text=last.text + event.text)
        case (events.PrefillProgress(), events.PrefillProgress()) | (events.CallProgress(), events.CallProgress()):
            return event
        case _:
            return None


class Feed:
    """One open session: its facts, its own panels, and what those have not drawn yet."""

    def __init__(self, session: Session, on_event: Callable[[], None]) -> None:
        self.session = session
        self.panels: tuple[Panel, ...] = ()
        self._on_event = on_event
        history = session.history()
        self._replay = Replay(history) if len(history) > DIRECT_EVENTS else None
        self._showing: tuple[Panel, ...] = ()
        self._is_begun = False
        if self._replay is None:
            self._pending = list(history)
            self.facts = Facts()
            for envelope in history:
                self.facts.apply(envelope)
        else:
            self._pending = self._replay.tail()
            self.facts = self._replay.first_facts()
        self._unsubscribe = session.subscribe(self._receive)

    @property
    def is_behind(self) -> bool:
        """Tell whether something that happened is not drawn yet."""
        return bool(self._pending)

    @property
    def is_loading(self) -> bool:
        """Tell whether the panels show only the end of the session so far."""
        return self._replay is not None

    def close(self) -> None:
        """Stop listening; the session is the caller's to close."""
        self._unsubscribe()
        self._replay = None

    def draw(self, others: Iterable[Panel] = ()) -> None:
        """Draw what is pending on its own panels and on others that show this session now, the oldest of very much first."""
        if self._replay is not None and self.panels and not self._is_begun:
            self._is_begun = True
            self._showing = self._replay.begin(self.panels)
        pending, self._pending = self._pending[:MOST_AT_ONCE], self._pending[MOST_AT_ONCE:]
        for panel in (*(self._showing if self.is_loading else self.panels), *others):
            for envelope in pending:
                panel.apply(envelope)

    def load(self, budget_s: float) -> bool:
        """Give the panels more of a long history, for about so long; True when they have just got the last of it."""
        replay = self._replay
        if replay is None or not replay.work(self.panels, budget_s):
            return False
        self._replay = None
        self._pending = []  # what happened meanwhile is in the replay too
        replay.finish(self.panels)
        self.facts = replay.facts
        return True

    def _receive(self, envelope: Envelope) -> None:
        self.facts.apply(envelope)
        if self._replay is not None:
            self._replay.append(envelope)
        merge_into(self._pending, envelope)
        self._on_event()


class Router:
    """All open sessions, which of them is on screen, and when its panels draw: at once, then at most 30 times a second.

    `shared` are panels that show whichever session is on screen; `on_show` gives a session its own panels and brings the
    shared ones in line with its facts.
    """

    def __init__(
        self,
        schedule: Callable[[float, Callable[[], None]], object],
        on_show: Callable[[Feed], None],
        on_change: Callable[[], None],
        frame_s: float = 1 / 30,
    ) -> None:
        self.feeds: dict[str, Feed] = {}
        self.active: Feed | None = None
        self.shared: tuple[Panel, ...] = ()
        self._schedule = schedule
        self._on_show = on_show
        self._on_change = on_change
        self._frame_s = frame_s
        self._due_since: float | None = None
        self._free_at = 0.0
        self._is_loading = False

    def add(self, session: Session) -> Feed:
        """Listen to a session; one that is known already is returned as it is."""
        feed = self.feeds.get(session.id)
        if feed is None:
            feed = self.feeds[session.id] = Feed(session, self._wake)
        return feed

    def remove(self, session_id: str) -> Feed | None:
        """Stop listening to a session and return what was known of it."""
        feed = self.feeds.pop(session_id, None)
        if feed is not None:
            feed.close()
        if feed is self.active:
            self.active = None
        return feed

    def show(self, feed: Feed) -> None:
        """Put a session on screen."""
        self.active = feed
        self._on_show(feed)
        feed.draw()
        self._on_change()
        self._go_on_loading()
        if feed.is_behind:
            self._wake()

    def flush(self) -> None:
        """Draw what is pending of the session on screen; the others wait until they are shown."""
        self._due_since = None
        started = time.thread_time()
        if self.active is not None:
            self.active.draw(self.shared)
        self._on_change()
        pause_s = max(self._frame_s, BUSY_FACTOR * (time.thread_time() - started))
        self._free_at = time.monotonic() + pause_s
        if self.active is not None and self.active.is_behind:
            self._wake()

    def waiting(self) -> list[Feed]:
        """Return the sessions that wait for an answer, oldest first."""
        return [feed for feed in self.feeds.values() if feed.facts.approvals or (feed.facts.waits and feed is not self.active)]

    def _go_on_loading(self) -> None:
        if not self._is_loading and self.active is not None and self.active.is_loading:
            self._is_loading = True
            self._schedule(LOAD_PAUSE_S, self._load)

    def _load(self) -> None:
        self._is_loading = False
        feed = self.active
        if feed is not None and feed.load(LOAD_SLICE_S):
            self._on_show(feed)
            self._on_change()
        self._go_on_loading()

    def _wake(self) -> None:
        """Draw soon; if a drawing is long overdue, its timer was lost, so draw now."""
        now = time.monotonic()
        if self._due_since is None:
            self._due_since = now
            self._schedule(max(0.0, self._free_at - now), self.flush)
        elif now - self._due_since > max(OVERDUE_S, 2 * (self._free_at - self._due_since)):
            _LOG.warning("a frame was overdue by %.1f s and is drawn now", now - self._due_since)
            self.flush()
