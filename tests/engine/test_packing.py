from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Envelope, Event, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role, ToolCall
from lmtui.engine.entries import History, Past, bare, packed, unpacked

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 400


def finished(number: int, result: str) -> ToolCallFinished:
    return ToolCallFinished(call_id=f"c{number}", tool="shell", ok=True, result=result, elapsed_ms=1)


def event_of(number: int) -> Event:
    given: dict[str, object] = {"path": f"f{number}", "content": f"row {number}\n" * 3_000, "lines": [1, 2], "more": "\ud800"}
    match number % 8:
        case 0:
            return MessageAdded(role=Role.ASSISTANT, text=f"step {number}")
        case 1:
            call = ToolCall(f"c{number}", "write", json.dumps(given))
            return MessageAdded(role=Role.ASSISTANT, text="", tool_calls=(ToolCall("small", "read", "{}"), call))
        case 2:
            return ToolCallStarted(call_id=f"c{number}", tool="write", arguments=given)
        case _:
            return finished(number, f"… line {number} of the output\n" * 1_000)


def history_of(count: int) -> tuple[History, list[Envelope]]:
    history, envelopes = History(), [Envelope(number, NOW, "s", event_of(number)) for number in range(count)]
    for envelope in envelopes:
        history.add(envelope)
    return history, envelopes


def test_what_is_held_packed_is_read_whole() -> None:
    history, envelopes = history_of(COUNT)
    past = history.read()
    assert isinstance(past, Past)
    assert (list(past), list(reversed(past)), past[1]) == (envelopes, envelopes[::-1], envelopes[1])
    assert (past[-1], past[1:9:2]) == (envelopes[-1], tuple(envelopes[1:9:2]))


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
    said_chars = sum(len(repr(each.event)) for each in history.read())
    assert said_chars > 25_000_000
    assert held_bytes < said_chars / 2


@given(st.lists(st.text()))
def test_every_text_comes_back(texts: list[str]) -> None:
    texts = [*texts, "\ud800\n"]
    assert unpacked(packed(texts)) == texts


def test_events_are_gone_through_without_their_long_results() -> None:
    history, envelopes = history_of(COUNT)
    held = bare(history.read())
    assert [each.event.kind for each in held] == [each.event.kind for each in envelopes]
    calls = (ToolCall("small", "read", ""), ToolCall("c1", "write", ""))
    assert held[1].event == MessageAdded(role=Role.ASSISTANT, text="", tool_calls=calls)
    assert any(isinstance(each.event, ToolCallFinished) and not each.event.result for each in held)
    assert bare(envelopes) is envelopes
