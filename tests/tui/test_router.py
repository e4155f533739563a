from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Envelope, Event, PrefillProgress, TextDelta, ThinkingDelta, ToolOutputDelta
from lmtui.tui.router import Panel, Router, SessionView, merge_into
from tests.tui.fakes import START, FakeSession

PIECES = st.one_of(
    st.builds(TextDelta, text=st.text(max_size=5), agent=st.sampled_from(["root", "a1"])),
    st.builds(ThinkingDelta, text=st.text(max_size=5), agent=st.sampled_from(["root", "a1"])),
    st.builds(ToolOutputDelta, call_id=st.sampled_from(["c1", "c2"]), text=st.text(max_size=5)),
    st.builds(PrefillProgress, ratio=st.floats(0, 1)),
)


class FakePanel(Panel):
    def __init__(self) -> None:
        self.seen: list[Event] = []

    def apply(self, envelope: Envelope) -> None:
        self.seen.append(envelope.event)


class Stage:
    """A router with a hand-turned timer; it shows a session, and what its panel saw so far is forgotten."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.changes = 0
        self.panels: dict[str, FakePanel] = {}
        self.router = Router(
            lambda delay, call: self.due.append((delay, call)), self.give_panel, self.note_change, lambda: None
        )

    def give_panel(self, feed: SessionView) -> None:
        feed.panels = (self.panels.setdefault(feed.session.id, FakePanel()),)

    def note_change(self) -> None:
        self.changes += 1

    def turn(self) -> None:
        due, self.due = self.due, []
        for _, call in due:
            call()


@given(st.lists(PIECES, max_size=30))
def test_merging_keeps_every_text_in_its_order(pieces: list[Event]) -> None:
    merged: list[Envelope] = []
    for number, piece in enumerate(pieces):
        merge_into(merged, Envelope(number, START, "s", piece))
    for kind in (TextDelta, ThinkingDelta, ToolOutputDelta):
        before = [(piece.agent, getattr(piece, "call_id", ""), piece.text) for piece in pieces if isinstance(piece, kind)]
        after = [
            (each.event.agent, getattr(each.event, "call_id", ""), each.event.text)
            for each in merged
            if isinstance(each.event, kind)
        ]
        for key in {(agent, call_id) for agent, call_id, _ in before}:
            assert "".join(text for *own, text in before if tuple(own) == key) == "".join(
                text for *own, text in after if tuple(own) == key
            )


def test_a_schedule_that_fails_does_not_blank_the_session_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, session = Stage(), FakeSession()
    stage.router.show(stage.router.add(session))
    stage.panels[session.id].seen.clear()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stage.router._schedule = lambda *_: (_ for _ in ()).throw(RuntimeError("no loop"))
    with contextlib.suppress(RuntimeError):
        session.emit(TextDelta(text="a"))
    now += 2
    session.emit(TextDelta(text="b"))
    assert stage.panels[session.id].seen == [TextDelta(text="ab")]
