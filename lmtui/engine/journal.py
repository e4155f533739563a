"""Where events get their place: first the log, then the session's state, then everyone who listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from lmtui.core.errors import SessionFileError
from lmtui.core.events import Envelope, Event, Level, Notice
from lmtui.core.ports import SessionLog
from lmtui.core.sanitize import Redactor
from lmtui.core.sessions import Subscriber
from lmtui.engine.entries import History

_log = logging.getLogger(__name__)


class Journal:
    """The one way out for events of a session.

    Args:
        session_id: continues every envelope.
        log: where durable events are written before anybody sees them.
        now: the time in UTC.
        take_up: lets a durable event change the session's state; called live and on replay alike.
        redactor: takes the values of keys out of every event before anybody gets it, the model too.
    """

    def __init__(
        self,
        session_id: str,
        log: SessionLog,
        now: Callable[[], datetime],
        take_up: Callable[[Event], None],
        redactor: Redactor,
    ) -> None:
        self._redactor = redactor
        self._session_id = session_id
        self._log = log
        self._now = now
        self._take_up = take_up
        self._history = History()
        self._subscribers: list[Subscriber] = []
        self._seq = 0

    @property
    def history(self) -> Sequence[Envelope]:
        """Return every durable event so far, oldest first."""
        return self._history.read()

    def replay(self, past: Sequence[Envelope]) -> None:
        """Take up what an earlier run has written."""
        for envelope in past:
            self._keep(envelope)

    def emit(self, event: Event) -> None:
        """Write an event, take it up and publish it.

        Raises:
            SessionFileError: it could not be written.  It was published all the same, so that what happened can be seen,
                but it is not a part of the session.
        """
        self._seq += 1
        envelope = Envelope(self._seq, self._now(), self._session_id, self._redactor.value(event))
        if event.durable:
            try:
                self._log.append(envelope)
            except SessionFileError:
                self._publish(envelope)
                raise
            self._keep(envelope)
        self._publish(envelope)

    def emit_from_outside(self, event: Event) -> None:
        """Emit an event that no turn waits for; a log that cannot be written becomes a notice."""
        try:
            self.emit(event)
        except SessionFileError as error:
            self.show_problem(error)

    def show_problem(self, error: SessionFileError) -> None:
        """Show that the log fails; the notice itself cannot be stored."""
        self._seq += 1
        notice = Notice(level=Level.ERROR, text=error.full_text())
        self._publish(Envelope(self._seq, self._now(), self._session_id, notice))

    def sync(self) -> None:
        """Force the log to the disk."""
        try:
            self._log.sync()
        except SessionFileError as error:
            self.show_problem(error)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each later event; the returned function ends it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def close(self) -> None:
        """Let go of the log and of everyone who listens."""
        self._subscribers.clear()
        self._log.close()

    def _keep(self, envelope: Envelope) -> None:
        self._history.add(envelope)
        self._seq = max(self._seq, envelope.seq)
        self._take_up(envelope.event)

    def _publish(self, envelope: Envelope) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(envelope)
            except Exception:  # noqa: BLE001  (border: an event subscriber; one that fails does not stop the others)
                _log.exception("a subscriber of session %s failed at %s", self._session_id, envelope.event.kind)
