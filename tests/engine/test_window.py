from __future__ import annotations

import json

from lmtui.core.events import Event, MessageAdded, ToolCallFinished, ToolCallStarted, TurnStarted
from lmtui.core.instruction_values import GuidanceRead, GuidanceSource, Instructions
from lmtui.core.messages import Role, ToolCall
from lmtui.core.model_events import Compacted
from lmtui.core.window import WindowItem
from lmtui.engine.session import RequestParts
from tests.engine.seen import seen
from tests.fakes import FakeProvider, Rig

CALL = ToolCall("c1", "read", '{"path": "a.py"}')


def begin(rig: Rig) -> RequestParts:
    """Let a session hold a task, a call and its result of about 250 tokens."""
    for event in (
        TurnStarted(turn_id="turn_1"),
        MessageAdded(role=Role.USER, text="y" * 80),
        MessageAdded(role=Role.ASSISTANT, text="I look.", tool_calls=(CALL,)),
        ToolCallStarted(call_id="c1", tool="read", arguments={}, title="a.py"),
        ToolCallFinished(call_id="c1", tool="read", ok=True, result="line of it\n" * 90, elapsed_ms=1),
        MessageAdded(role=Role.ASSISTANT, text="Done."),
    ):
        rig.session.emit(event)
    return rig.session.window_use


def item_of(window: RequestParts) -> WindowItem:
    (item,) = next(part.items for part in window.parts() if part.name == "results of read")
    return item


def test_a_request_is_counted_by_parts_and_single_messages() -> None:
    window = begin(Rig(FakeProvider()))
    parts = {part.name: part for part in window.parts()}
    assert list(parts) == ["system prompt", "tools", "you", "answers", "tool calls", "results of read"]
    assert parts["answers"].count == 2
    assert all(part.tokens == sum(item.tokens for item in part.items) for part in parts.values())
    assert item_of(window).title == "a.py"
    assert 240 < item_of(window).tokens < item_of(window).reread_tokens < 270
    (you,) = parts["you"].items
    assert (you.id, you.title) == ("", "y" * 80)


def test_instructions_have_a_part_of_their_own_with_where_they_are_from() -> None:
    rig = Rig(FakeProvider())
    source = GuidanceSource("instructions", "AGENTS.md", 200)
    rig.session.emit(GuidanceRead(guidance=Instructions(instructions="use tabs " * 90, sources=(source,))))
    before, after = (next(part for part in window.parts() if part.name == "system prompt").tokens for window in (
        begin(Rig(FakeProvider())), begin(rig),
    ))  # fmt: skip
    (part,) = (part for part in rig.session.window_use.parts() if part.name == "instructions")
    assert [item.title for item in part.items] == ["AGENTS.md"]
    assert 150 < part.tokens < 260
    assert abs(before - after) < 10


def test_what_changes_early_costs_the_reading_of_all_behind_it() -> None:
    parts = {part.name: part for part in begin(Rig(FakeProvider())).parts()}
    whole = sum(part.tokens for part in parts.values()) - parts["tools"].tokens
    assert abs(parts["system prompt"].items[0].reread_tokens - whole) < 10


def test_a_result_is_folded_left_out_and_brought_back() -> None:
    rig = Rig(FakeProvider())
    window = begin(rig)
    whole = item_of(window).tokens
    window.fold("c1")
    folded = item_of(window)
    assert (folded.state, folded.id) == ("folded", "c1")
    assert folded.tokens < whole
    window.leave_out("c1")
    assert item_of(window).state == "left out"
    assert item_of(window).tokens < folded.tokens / 3
    window.bring_back("c1")
    assert (item_of(window).state, item_of(window).tokens) == ("", whole)
    told = seen(rig, Compacted)
    assert [event.why for event in told] == ["you folded it", "you left it out"]
    assert told[0].tokens_before - told[0].tokens_after == whole - folded.tokens


def test_a_result_is_pinned_and_let_go() -> None:
    window = begin(Rig(FakeProvider()))
    window.pin("c1")
    assert item_of(window).is_pinned
    window.pin("c1", is_pinned=False)
    assert not item_of(window).is_pinned


def test_what_is_not_there_is_left_alone() -> None:
    rig = Rig(FakeProvider())
    window = begin(rig)
    before: list[Event] = rig.events
    for change in (window.fold, window.leave_out, window.bring_back, window.pin):
        change("c9")
        change("")
    assert rig.events == before


async def test_the_next_request_has_what_was_left_out_as_a_line() -> None:
    rig = Rig(FakeProvider())
    window = begin(rig)
    window.leave_out("c1")
    await rig.run("go on")
    texts = [message.text for message in rig.provider.requests[-1].messages]
    assert texts[3] == "[result of read a.py, 248 tokens, left out; read it again if you need it]"


def test_seconds_are_known_once_the_speed_is() -> None:
    assert begin(Rig(FakeProvider())).read_s(1000) == 0.0


async def test_what_was_changed_by_hand_is_the_same_after_a_resume() -> None:
    rig = Rig(FakeProvider())
    window = begin(rig)
    for change in (window.fold, window.leave_out, window.bring_back, window.fold, window.pin):
        change("c1")
    await rig.run("go on")
    again = Rig(FakeProvider(), past=rig.log.events)
    assert (item_of(again.session.window_use), item_of(window).state) == (item_of(window), "folded")
    await again.run("more")
    sent = [message.text for message in again.provider.requests[-1].messages]
    assert sent[: len(rig.provider.requests[-1].messages)] == [message.text for message in rig.provider.requests[-1].messages]


def begin_long(rig: Rig) -> RequestParts:
    """Let a session hold a call with long arguments."""
    call = ToolCall("c1", "write", json.dumps({"path": "a.py", "content": "line of it\n" * 200}))
    for event in (
        MessageAdded(role=Role.USER, text="write it"),
        MessageAdded(role=Role.ASSISTANT, text="", tool_calls=(call,)),
        ToolCallStarted(call_id="c1", tool="write", arguments={}, title="a.py"),
        ToolCallFinished(call_id="c1", tool="write", ok=True, result="written", elapsed_ms=1),
    ):
        rig.session.emit(event)
    return rig.session.window_use


def call_of(window: RequestParts) -> WindowItem:
    (item,) = next(part.items for part in window.parts() if part.name == "tool calls")
    return item


def test_long_arguments_of_a_call_are_left_out_and_brought_back() -> None:
    window = begin_long(Rig(FakeProvider()))
    whole = call_of(window)
    window.leave_out(whole.id)
    assert call_of(window).state == "left out"
    assert call_of(window).tokens < whole.tokens / 5
    window.bring_back(whole.id)
    assert call_of(window) == whole


def test_long_arguments_are_pinned_together_with_the_result() -> None:
    window = begin_long(Rig(FakeProvider()))
    window.pin(call_of(window).id)
    assert call_of(window).is_pinned
    (result,) = next(part.items for part in window.parts() if part.name == "results of write")
    assert result.is_pinned
    window.pin(result.id, is_pinned=False)
    assert not call_of(window).is_pinned
