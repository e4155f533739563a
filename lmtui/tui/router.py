"""From sessions to panels: merges what streams, calls `apply(envelope)` on the panels of the session on screen.

Sessions in the background cost one reducer and nothing more.  No widgets are known here, only `Panel`, which they extend.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from lmtui.core import events
from lmtui.core.events import Envelope, Event, TurnStarted
from lmtui.core.model_events import ModelLoading
from lmtui.core.sessions import Session
from lmtui.tui.session_state import SessionState

DIRECT_EVENTS = 400
_HEAD_EVENTS = 32
_TAIL_EVENTS = 150
_FURTHEST_TAIL = 3000
_EVENTS_A_LOOK = 8
EventHandlers = dict[type[Event], Callable[[Any], None]]  # Any: an event of the type


class Panel:
    """What draws the events of a session; a panel may take a long history behind what it shows."""

    loads_behind = False

    def apply(self, envelope: Envelope) -> None:
        """Draw one event at the end of what is shown."""

    def apply_behind(self, envelope: Envelope) -> None:
        """Take one event of the whole history; nothing of it is seen yet."""
        self.apply(envelope)

    def begin_loading(self) -> None:
        """Expect the whole history from its first event on, through `apply_behind`."""

    def finish_loading(self) -> None:
        """Show the whole history; the reader stays where he is."""


def tail_start(history: Sequence[Envelope]) -> int:
    """Return where the end that is shown first begins: with a turn, if one begins near enough."""
    last = max(0, len(history) - _TAIL_EVENTS)
    for index in range(last, max(0, last - _FURTHEST_TAIL), -1):
        if isinstance(history[index].event, TurnStarted):
            return index
    return last


_BUSY_FACTOR = 3
MAX_PIECE_CHARS = 65_536
MOST_AT_ONCE = 800
LOAD_SLICE_S = 0.006
LOAD_PAUSE_S = 0.004


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
        case (
            (events.PrefillProgress(), events.PrefillProgress())
            | (ModelLoading(), ModelLoading())
            | (events.CallProgress(), events.CallProgress())
        ):
            return event
        case _:
            return None


class SessionView:
    """One open session: its state, its own panels, and what those have not drawn yet."""

    def __init__(
        self, session: Session, on_event: Callable[[Envelope], None], on_question: Callable[[], object] = lambda: None
    ) -> None:
        self.session = session
        self.panels: tuple[Panel, ...] = ()
        self._on_event, self._on_question = on_event, on_question
        self._past: Sequence[Envelope] = session.history()  # not copied: it may be packed until it is looked at
        self.is_loading = len(self._past) > DIRECT_EVENTS  # the panels show only the end so far
        self._later: list[Envelope] = []  # what happens meanwhile
        self._loaded, self._loaded_state = 0, SessionState()
        self._is_begun = False
        start = tail_start(self._past) if self.is_loading else 0
        self._pending = list(self._past[start:])
        self.state = SessionState()  # as far as the beginning and the end tell it
        for envelope in (*self._past[: min(_HEAD_EVENTS, start)], *self._pending):
            self.state.apply(envelope)
        self._unsubscribe = session.subscribe(self._receive)

    @property
    def is_behind(self) -> bool:
        """Tell whether something that happened is not drawn yet."""
        return bool(self._pending)

    def close(self) -> None:
        """Stop listening; the session is the caller's to close."""
        self._unsubscribe()
        self.is_loading = False

    def draw(self, others: Iterable[Panel] = ()) -> None:
        """Draw what is pending on its own panels and on others that show this session now, the oldest of very much first."""
        if self.is_loading and self.panels and not self._is_begun:
            self._is_begun = True
            for panel in self.panels:
                panel.begin_loading()
        pending, self._pending = self._pending[:MOST_AT_ONCE], self._pending[MOST_AT_ONCE:]
        own = [each for each in self.panels if each.loads_behind or not self.is_loading]
        for panel in (*own, *others):
            for envelope in pending:
                panel.apply(envelope)

    def load(self, budget_s: float) -> bool:
        """Give the panels more of a long history, for about so long; True when they have just got the last of it.

        What they keep of it is for good: frozen, no collection looks through it while the reader waits.
        """
        if not self.is_loading:
            return False
        end, count = perf_counter() + budget_s, len(self._past)
        while self._loaded < count + len(self._later) and perf_counter() < end:
            first, last = self._loaded, self._loaded + _EVENTS_A_LOOK
            for envelope in (*self._past[first:last], *self._later[max(0, first - count) : max(0, last - count)]):
                self._loaded_state.apply(envelope)
                for panel in self.panels:
                    panel.apply_behind(envelope)
            self._loaded = last
        gc.freeze()
        if self._loaded < count + len(self._later):
            return False
        self.is_loading, self.state, self._past, self._later = False, self._loaded_state, (), []
        self._pending = []  # what happened meanwhile is loaded too
        for panel in self.panels:
            panel.finish_loading()
        return True

    def _receive(self, envelope: Envelope) -> None:
        before = self.state.questions
        self.state.apply(envelope)
        if self.is_loading:
            self._later.append(envelope)
        merge_into(self._pending, envelope)
        self._on_event(envelope)
        if self.state.questions != before:
            self._on_question()


class Router:
    """All open sessions, which of them is on screen, and when its panels draw: at once, then at most 30 times a second.

    `shared` are panels that show whichever session is on screen; `on_show` gives a session its own panels and brings the
    shared ones in line with its state.  `on_question` is called when an event asks the user something, or answers it.
    """

    def __init__(
        self,
        schedule: Callable[[float, Callable[[], None]], object],
        on_show: Callable[[SessionView], None],
        on_change: Callable[[], None],
        on_question: Callable[[], object],
        frame_s: float = 1 / 30,
    ) -> None:
        self.views: dict[str, SessionView] = {}
        self.active: SessionView | None = None
        self.shared: tuple[Panel, ...] = ()
        self.event_handlers: EventHandlers = {}
        self._schedule = schedule
        self._on_show = on_show
        self._on_change = on_change
        self._on_question = on_question
        self._frame_s = frame_s
        self._is_due = False
        self._free_at = 0.0
        self._is_loading = False

    def add(self, session: Session) -> SessionView:
        """Listen to a session; one that is known already is returned as it is."""
        view = self.views.get(session.id)
        if view is None:
            view = self.views[session.id] = SessionView(session, self._handle, self._on_question)
        return view

    def remove(self, session_id: str) -> None:
        """Stop listening to a session."""
        view = self.views.pop(session_id, None)
        if view is not None:
            view.close()
        if view is self.active:
            self.active = None

    def show(self, view: SessionView) -> None:
        """Put a session on screen."""
        self.active = view
        self._on_show(view)
        view.draw()
        self._on_change()
        self._go_on_loading()
        if view.is_behind:
            self._wake()

    def flush(self) -> None:
        """Draw what is pending of the session on screen; the others wait until they are shown."""
        self._is_due = False
        started = time.thread_time()
        if self.active is not None:
            self.active.draw(self.shared)
        self._on_change()
        pause_s = max(self._frame_s, _BUSY_FACTOR * (time.thread_time() - started))
        self._free_at = time.monotonic() + pause_s
        if self.active is not None and self.active.is_behind:
            self._wake()

    def waiting(self) -> list[SessionView]:
        """Return the sessions that wait for an answer, oldest first."""
        return [view for view in self.views.values() if view.state.waits]

    def _go_on_loading(self) -> None:
        if not self._is_loading and self.active is not None and self.active.is_loading:
            self._is_loading = True
            self._schedule(LOAD_PAUSE_S, self._load)

    def _load(self) -> None:
        self._is_loading = False
        view = self.active
        if view is not None and view.load(LOAD_SLICE_S):
            self._on_show(view)
            self._on_change()
        self._go_on_loading()

    def _handle(self, envelope: Envelope) -> None:
        if (handle := self.event_handlers.get(type(envelope.event))) is not None:
            handle(envelope.event)
        self._wake()

    def _wake(self) -> None:
        """Draw soon."""
        if not self._is_due:
            self._is_due = True
            self._schedule(max(0.0, self._free_at - time.monotonic()), self.flush)
