from __future__ import annotations

from collections.abc import Callable

from lmtui.core import events
from lmtui.core.events import Envelope
from lmtui.core.messages import Role
from lmtui.tui.router import MOST_AT_ONCE, Panel, Router, SessionView
from tests.tui.fakes import FakeSession


class Behind(Panel):
    """A panel that can take a long history."""

    loads_behind = True

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.whole: list[int] = []

    def apply(self, envelope: Envelope) -> None:
        self.seen.append(envelope.seq)

    def begin_loading(self) -> None:
        self.whole = []

    def apply_behind(self, envelope: Envelope) -> None:
        self.whole.append(envelope.seq)

    def finish_loading(self) -> None:
        self.seen = self.whole


def say(session: FakeSession, count: int) -> None:
    for number in range(count):
        session.emit(events.MessageAdded(role=Role.ASSISTANT, text=f"line {number}"))


def test_very_much_that_came_in_behind_is_drawn_in_frames_and_in_order() -> None:
    session, panel = FakeSession(), Behind()
    due: list[Callable[[], None]] = []

    def show(feed: SessionView) -> None:
        feed.panels = (panel,)

    router = Router(lambda _, callback: due.append(callback), show, lambda: None, lambda: None)
    feed = router.add(session)
    say(session, MOST_AT_ONCE * 2 + 10)
    due.clear()
    router._is_due = False
    router.show(feed)
    assert len(panel.seen) == MOST_AT_ONCE
    while due:
        due.pop(0)()
    assert panel.seen == [envelope.seq for envelope in session.history()]
    assert not feed.is_behind
