from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Envelope, Event, MessageAdded, ToolCallFinished
from lmtui.core.messages import Role
from lmtui.engine.packing import History, Past, bare, packed, unpacked

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 400


def finished(number: int, result: str) -> ToolCallFinished:
    return ToolCallFinished(call_id=f"c{number}", tool="shell", ok=True, result=result, elapsed_ms=1)


def event_of(number: int) -> Event:
    if number % 4:
        return finished(number, f"… line {number} of the output\n" * 1_000)
    return MessageAdded(role=Role.ASSISTANT, text=f"step {number}")


def history_of(count: int) -> tuple[History, list[Envelope]]:
    history, envelopes = History(), [Envelope(number, NOW, "s", event_of(number)) for number in range(count)]
    for envelope in envelopes:
        history.add(envelope)
    return history, envelopes


def test_what_is_held_packed_is_read_whole() -> None:
    history, envelopes = history_of(COUNT)
    past = history.read()
    assert isinstance(past, Past)
    assert list(past) == envelopes
    assert list(reversed(past)) == envelopes[::-1]
    assert past[1] == envelopes[1]
    assert past[-1] == envelopes[-1]
    assert past[1:9:2] == tuple(envelopes[1:9:2])


def test_what_was_read_does_not_change_behind_the_reader() -> None:
    history, envelopes = history_of(3)
    past = history.read()
    for envelope in history_of(COUNT)[1]:
        history.add(envelope)
    assert list(past) == envelopes


def test_thousands_of_results_take_a_part_of_their_size() -> None:
    tracemalloc.start()
    try:
        history = History()
        for number in range(1_200):
            history.add(Envelope(number, NOW, "s", event_of(number)))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said_chars = sum(len(each.event.result) for each in history.read() if isinstance(each.event, ToolCallFinished))
    assert said_chars > 20_000_000
    assert held_bytes < said_chars / 2


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    assert unpacked(packed(text + "\ud800")) == text + "\ud800"


def test_events_are_gone_through_without_their_long_results() -> None:
    history, envelopes = history_of(COUNT)
    held = bare(history.read())
    assert [each.event.kind for each in held] == [each.event.kind for each in envelopes]
    assert any(isinstance(each.event, ToolCallFinished) and not each.event.result for each in held)
    assert bare(envelopes) is envelopes
