from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import Envelope, Event, MessageAdded, Rewound, ToolCallFinished, ToolCallStarted, TurnStarted
from lmtui.core.messages import Role, ToolCall
from lmtui.core.model_events import Compacted, Pinned
from lmtui.engine.context import Conversation
from lmtui.engine.entries import History, bare, packed, unpacked

STEPS = 40


def step(number: int) -> list[Event]:
    call = ToolCall(f"c{number}", "read", "{}" if number % 2 else json.dumps({"path": "x" * 3000}))
    return [
        MessageAdded(role=Role.ASSISTANT, text=f"step {number}", tool_calls=(call,)),
        ToolCallStarted(call_id=call.id, tool="read", arguments={}, title=f"f{number}.py"),
        ToolCallFinished(call_id=call.id, tool="read", ok=True, result=f"line of {number}\n" * 400, elapsed_ms=1),
    ]


def task(text: str, turn_id: str) -> list[Event]:
    return [TurnStarted(turn_id=turn_id), MessageAdded(role=Role.USER, text=text)]


def talk_of(*events: Event) -> Conversation:
    talk = Conversation("root", lambda *_: "prompt")
    for event in events:
        talk.apply(event)
    return talk


def cut(kept_from: int) -> Compacted:
    return Compacted(why="full", tokens_before=9, tokens_after=5, kept_from=kept_from, summary=f"summary to {kept_from}")


BEGUN = [*task("the task", "t1"), *(event for number in range(STEPS) for event in step(number))]
MORE = [*task("and more", "t2"), *(event for number in range(STEPS, 2 * STEPS) for event in step(number))]


def test_a_rewind_to_between_two_cuts_keeps_what_the_first_one_packed() -> None:
    events = [*BEGUN, cut(62), *MORE, *task("third", "t3"), *step(90), *step(91), cut(170), *step(92)]
    plain = talk_of(*BEGUN, cut(62), *MORE)
    talk = talk_of(*events, Rewound(turn_id="t3"))
    assert (talk.messages, list(talk.entries)) == (plain.messages, list(plain.entries))
    assert talk.gist(len(talk.entries)) == plain.gist(len(plain.entries))
    for event in (*step(95), cut(150), *step(96)):
        talk.apply(event)
        plain.apply(event)
    assert (talk.messages, list(talk.entries)) == (plain.messages, list(plain.entries))


def test_what_is_summed_up_is_whole_before_a_rewind_and_what_is_pinned_sent_with_its_result() -> None:
    plain, cut_twice = talk_of(*BEGUN, *MORE), talk_of(*BEGUN, cut(62), *MORE, cut(142))
    assert (list(cut_twice.entries), cut_twice.entries[2:9]) == (list(plain.entries), plain.entries[2:9])
    assert (cut_twice.entries[3], cut_twice.entries[-1]) == (plain.entries[3], plain.entries[-1])
    assert len(cut_twice.messages) < 30
    talk = talk_of(*BEGUN, *MORE, cut(142), *step(100), Rewound(turn_id="t2"))
    assert talk.messages == talk_of(*BEGUN).messages
    talk = talk_of(*BEGUN, *MORE, cut(142), *step(100), *step(101), *step(102), Pinned(part="c4"))
    answer, result = talk.messages[2:4]
    assert (answer.tool_calls[0].id, result.call_id) == ("c4", "c4")
    assert json.loads(answer.tool_calls[0].arguments) == {"path": "x" * 3000}


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


def test_what_is_held_packed_is_read_whole_and_takes_a_part_of_its_size() -> None:
    history, envelopes = history_of(COUNT)
    past = history.read()
    assert bare(past) != envelopes
    assert (list(past), list(reversed(past)), past[1]) == (envelopes, envelopes[::-1], envelopes[1])
    assert (past[-1], past[1:9:2]) == (envelopes[-1], envelopes[1:9:2])
    history, envelopes = history_of(3)
    past = history.read()
    for envelope in history_of(COUNT)[1]:
        history.add(envelope)
    assert list(past) == envelopes
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
