from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ContextOverflow
from lmtui.core.events import (
    Event,
    MessageAdded,
    ModelChanged,
    Rewound,
    ToolCallFinished,
    ToolCallStarted,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, ToolCall, Usage
from lmtui.core.model_events import Compacted, Pinned
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import Plan
from lmtui.core.ports import Limits
from lmtui.core.window import bytes_by_four
from lmtui.engine.context import Conversation, ModelSettings
from lmtui.engine.context_fit import LIMIT_SHARE, RoomNeeded, compact, summed_up
from lmtui.engine.entries import LONG_ARGUMENT_CHARS, TranscriptSummary, check_copied, in_short
from lmtui.models.request_encoding import worked_example
from lmtui.tools.registry import ToolRegistry
from tests.engine.seen import ending, ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import depth, for_each

RATIO, OVERHEAD = 1.3, 60


def prompt_tokens(request: ModelRequest) -> int:
    """Count a request as a server with another tokenizer would, its template included."""
    texts = [message.text + "".join(call.name + call.arguments for call in message.tool_calls) for message in request.messages]
    tools = sum(bytes_by_four(tool.name + tool.description + json.dumps(tool.parameters)) for tool in request.tools)
    return OVERHEAD + round(RATIO * (sum(map(bytes_by_four, texts)) + tools)) + 5 * len(texts)


class BusyModel(FakeProvider):
    """Reads, writes, runs and plans for as many steps as it is let, on a server that refuses what is larger than its window."""

    def __init__(self, window: int, steps: int, seed: int = 1, *, tells_window: bool = True) -> None:
        super().__init__()
        self.window, self.steps, self.tells_window = window, steps, tells_window
        self.random = random.Random(seed)
        self.made = 0
        self.refused = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        count = prompt_tokens(request)
        if count > self.window:
            self.refused += 1
            raise ContextOverflow("too large", window_tokens=self.window if self.tells_window else 0)
        check_valid(request)
        self.requests.append(request)
        self.made += 1
        calls = self._calls() if self.made % self.steps else ()
        message = Message(Role.ASSISTANT, f"step {self.made}", "", calls)
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        yield Completion(message, reason, Usage(count, 30), 0.2, 0.5)

    def _calls(self) -> tuple[ToolCall, ...]:
        number = self.made
        name = f"f{self.random.randrange(8)}.py"
        some = (
            ("read", {"path": name}),
            ("write", {"path": name, "content": f"ln = {number}\n" * self.random.randrange(1, 120)}),
            ("shell", {"command": f"pytest test_{number % 7}.py"}),
            ("task_todo_set", {"items": [{"content": f"todo {number}", "status": "completed"}]}),
            ("read", {"path": f"missing{number}.py"}),
        )
        picked = self.random.choices(some, weights=(6, 3, 3, 1, 1), k=self.random.choice((1, 1, 1, 2, 4)))
        once = dict.fromkeys((tool, json.dumps(args)) for tool, args in picked)
        return tuple(ToolCall(f"call_{number}_{index}", tool, args) for index, (tool, args) in enumerate(once))


def check_valid(request: ModelRequest) -> None:
    """No result without its call before it, no call without its result behind it, the system prompt and the task in front."""
    open_calls: set[str] = set()
    for message in request.messages:
        if message.role is Role.TOOL:
            assert message.call_id in open_calls
            open_calls.remove(message.call_id)
        else:
            assert not open_calls
        open_calls |= {call.id for call in message.tool_calls}
    assert not open_calls
    assert [message.role for message in request.messages[:2]] == [Role.SYSTEM, Role.USER]
    assert request.messages[1].text.startswith("make it work")


def rig_for(model: BusyModel, window: int) -> Rig:
    files = {f"f{number}.py": f"value = {number}\n".encode() * 40 * (number + 1) for number in range(8)}
    rig = Rig(model, FakeSandbox(files), limits=Limits(max_iterations=0))
    if window:
        rig.session.emit(ModelChanged(model="model", url=model.url, window_tokens=window))
    return rig


async def work(rig: Rig, model: BusyModel, steps: int) -> TurnReason:
    """Give tasks until the model has made its steps or a turn ends otherwise than done."""
    for number in itertools.count():
        await rig.run("make it work" if not number else f"and now part {number}")
        end = ending(rig)
        if end.reason is not TurnReason.DONE or model.made >= steps:
            return end.reason
    raise AssertionError


def runs_of_compactions(rig: Rig) -> int:
    """Return how many compactions came in a row without an answer between them, at most."""
    most = now = 0
    for event in rig.events:
        if isinstance(event, Compacted):
            now += 1
            most = max(most, now)
        elif event.kind == "usage_updated":
            now = 0
    return most


STEPS = depth(80, 500)


@for_each("window", depth([2048, 8192], [2048, 4096, 8192, 16384, 32768]))
async def test_many_steps_fit_into_any_window_or_stop_with_the_reason(window: int) -> None:
    model = BusyModel(window, steps=60)
    rig = rig_for(model, window)
    reason = await work(rig, model, STEPS)
    if window > 2048:
        assert reason is TurnReason.DONE
        assert model.made >= STEPS
    else:
        assert reason in (TurnReason.DONE, TurnReason.LIMIT)
    made_room = rig.of("compacted")
    assert made_room or reason is TurnReason.LIMIT
    assert runs_of_compactions(rig) <= (1 if not model.refused else 2)
    assert len(made_room) < model.made * (0.7 if window == 2048 else 0.35)
    assert ("window" in ending(rig).error) == (reason is TurnReason.LIMIT)


@pytest.mark.parametrize("window", [4096, 6000])
async def test_a_window_that_nobody_tells_is_learned_from_the_first_refusal(window: int) -> None:
    model = BusyModel(window, steps=60, tells_window=window == 4096)
    rig = rig_for(model, 0)
    assert await work(rig, model, 100) is TurnReason.DONE
    changes = [event.window_tokens for event in seen(rig, ModelChanged)]
    assert changes
    assert seen(rig, Compacted)[0].why == "the server refused a request of this size"
    assert 0.6 * window < changes[-1] < window / LIMIT_SHARE
    assert model.refused <= 3
    assert runs_of_compactions(rig) <= 2


async def test_what_does_not_fit_ends_the_turn_with_the_reason_and_the_way_out_and_is_not_sent_for_ever() -> None:
    model = BusyModel(4096, steps=10)
    rig = await ran(rig_for(model, 4096), "make it work " + "word " * 6000)
    end = ending(rig)
    assert end.reason is TurnReason.LIMIT
    assert "window of 4,096 tokens is full" in end.error
    assert "/context" in end.error
    assert not model.requests
    model = BusyModel(300, steps=10, tells_window=False)
    rig = await ran(rig_for(model, 8192), "make it work")
    assert ending(rig).reason is TurnReason.LIMIT
    assert model.refused <= 2


def talk_events(steps: int, result: str = "some line of text\n" * 40) -> list[Event]:
    """Return the events of a task with so many readings of a file each."""
    events: list[Event] = [TurnStarted(turn_id="turn_1"), MessageAdded(role=Role.USER, text="make it work")]
    for number in range(1, steps + 1):
        call = ToolCall(f"c{number}", "read", "{}")
        events += [
            MessageAdded(role=Role.ASSISTANT, text="", tool_calls=(call,)),
            ToolCallStarted(call_id=call.id, tool="read", arguments={}, title=f"f{number}.py"),
            ToolCallFinished(call_id=call.id, tool="read", ok=True, result=result, elapsed_ms=1),
        ]
    return events


def talk_of(steps: int, result: str = "some line of text\n" * 40) -> Conversation:
    """Return a conversation of one task with so many readings of a file each."""
    talk = Conversation("root", lambda *_: "prompt")
    for event in talk_events(steps, result):
        talk.apply(event)
    return talk


def size_of(message: Message) -> int:
    return bytes_by_four(message.text) + 4


def made_smaller(talk: Conversation, window: int) -> Compacted:
    tokens = sum(map(size_of, talk.messages))
    room = RoomNeeded.of(window, 0, sum(map(size_of, talk.messages[:2])))
    event = compact(talk, Plan(), size_of, tokens, room=room, why="test")
    assert event is not None
    talk.apply(event)
    assert event.tokens_after <= room.limit
    assert 0 <= event.tokens_after - sum(map(size_of, talk.messages)) <= 12
    return event


def test_old_results_go_first_then_the_beginning_and_a_rewind_sends_it_again() -> None:
    talk = talk_of(10)
    event = made_smaller(talk, 2000)
    assert (event.elided, event.kept_from) == (tuple(f"c{number}" for number in range(1, len(event.elided) + 1)), 0)
    assert talk.messages[3].text == "[result of read f1.py, 180 tokens, left out; read it again if you need it]"
    assert all("some line" in message.text for message in talk.messages[-5:] if message.role is Role.TOOL)
    talk = talk_of(60, "12 chars of.")
    event = made_smaller(talk, 400)
    assert event.kept_from > 50
    assert talk.messages[1].text.startswith("make it work\n\n[The conversation up to here was left out")
    assert "files you read: f" in talk.messages[1].text
    assert len(talk.messages) == 2 + len(talk.entries) - event.kept_from
    talk = talk_of(40, "short")
    first = made_smaller(talk, 300)
    for number in range(40):
        talk.apply(MessageAdded(role=Role.USER, text=f"question {number}"))
        talk.apply(MessageAdded(role=Role.ASSISTANT, text=f"answer {number}"))
    assert made_smaller(talk, 300).kept_from > first.kept_from
    assert talk.messages[1].text.count("[The conversation up to here") == 1
    assert "question" in talk.messages[1].text
    talk = talk_of(3)
    talk.apply(TurnStarted(turn_id="turn_2"))
    talk.apply(MessageAdded(role=Role.USER, text="the second task"))
    for number in range(3):
        talk.apply(MessageAdded(role=Role.ASSISTANT, text=f"answer {number} " * 30))
    before = [message.text for message in talk.messages[:8]]
    talk.apply(Compacted(why="test", tokens_before=2, tokens_after=1, kept_from=10, summary="[summary]"))
    assert talk.messages[1].text == "make it work\n\n[summary]\n\n[The user said last:]\nthe second task"
    talk.apply(Rewound(turn_id="turn_2"))
    assert [message.text for message in talk.messages] == before


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(250, 4000), st.sets(st.integers(1, 30)))
def test_whatever_is_made_smaller_stays_a_conversation_that_servers_take(kinds: list[int], window: int, pins: set[int]) -> None:
    talk = Conversation("root", lambda *_: "prompt")
    talk.apply(MessageAdded(role=Role.USER, text="make it work"))
    for number, kind in enumerate(kinds):
        calls = tuple(ToolCall(f"c{number}_{index}", "read", "{}") for index in range(kind % 5))
        talk.apply(MessageAdded(role=Role.USER if kind == 5 else Role.ASSISTANT, text=f"text {number}", tool_calls=calls))
        for call in calls:
            talk.apply(ToolCallFinished(call_id=call.id, tool="read", ok=True, result="word " * 50 * kind, elapsed_ms=1))
    for number in pins:
        talk.apply(Pinned(part=f"c{number}_0"))
    before = [message for message in talk.messages if message.call_id in {f"c{number}_0" for number in pins}]
    tokens = sum(map(size_of, talk.messages))
    room = RoomNeeded.of(window, 0, sum(map(size_of, talk.messages[:2])))
    event = compact(talk, Plan(), size_of, tokens, room=room, why="test") if tokens > room.limit else None
    if event is not None:
        talk.apply(event)
        assert event.tokens_after < event.tokens_before
    check_valid(talk.request((), ModelSettings()))
    kept = [message for message in talk.messages if message.call_id in {f"c{number}_0" for number in pins}]
    assert [message.text for message in kept] == [message.text for message in before]


def test_a_summary_in_letters_that_take_more_tokens_is_no_larger() -> None:
    gist = TranscriptSummary(said=["任务", *(f"第{number}句话" * 30 for number in range(40)), "最后"], answer="完成了" * 500)
    room = RoomNeeded.of(8_000, 0, 500)
    text = summed_up(gist, Plan(), room, lambda message: len(message.text))
    assert len(text) <= room.shares.total / 3.5 * 1.1
    assert "第39句话" in text or "第38句话" in text


def given_call(name: str, **arguments: object) -> ToolCall:
    return ToolCall("c1", name, json.dumps(arguments))


def given_to(short: ToolCall) -> dict[str, object]:
    found = json.loads(short.arguments)
    assert isinstance(found, dict)
    return found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=600),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=40,
)


@given(st.dictionaries(st.text(max_size=9), JSON, max_size=6))
def test_whatever_was_given_stays_an_object_with_the_same_names(arguments: dict[str, object]) -> None:
    before = ToolCall("c1", "any", json.dumps(arguments))
    short = in_short(before)
    assert (given_to(short).keys(), (short.id, short.name)) == (arguments.keys(), ("c1", "any"))
    assert max(map(len, re.findall(r'"(?:[^"\\]|\\.)*"', short.arguments)), default=0) < 6 * LONG_ARGUMENT_CHARS + 3
    assert short is before or given_to(short) != arguments


@for_each("arguments", ["{", "[" * 5000, '"' + "x" * 900 + '"', '{"a": "\\ud800' + "x" * 900 + '"}'])
def test_what_is_no_object_or_half_a_character_is_taken_too(arguments: str) -> None:
    assert isinstance(json.loads(in_short(ToolCall("c", "t", arguments)).sent_arguments), dict)
    in_short(ToolCall("c", "t", arguments)).arguments.encode()


async def test_a_model_that_writes_large_files_does_not_fill_its_window_with_them() -> None:
    texts = [f"row {number} of the table\n" * 300 for number in range(12)]
    writes = [answer("", ("write", json.dumps({"path": f"t{n}.txt", "content": text}))) for n, text in enumerate(texts)]
    rig = Rig(FakeProvider(*writes, answer("all are written")), FakeSandbox(), mode=Mode.AUTO)
    rig.session.emit(ModelChanged(model="model", url=rig.provider.url, window_tokens=8_192))
    await rig.run("write the tables")
    assert any(part.startswith("args_") for event in seen(rig, Compacted) for part in event.elided)
    assert [rig.sandbox.files[f"t{number}.txt"].decode() for number in range(12)] == texts
    for request in rig.provider.requests:
        given = [json.loads(each.arguments) for message in request.messages for each in message.tool_calls]
        assert all(each["path"].startswith("t") for each in given)
        whole = [each for each in given if each["content"] in texts]
        assert len(whole) <= 4
        assert not given or given[-1]["content"] in texts  # the last one is always whole


async def test_what_the_model_copied_from_lmtui_or_from_an_example_is_refused() -> None:
    copied = in_short(given_call("write", path="a.txt", content="line\n" * 500)).arguments
    rig = Rig(FakeProvider(answer("", ("write", copied)), answer("I will look again.")), FakeSandbox(), mode=Mode.AUTO)
    await rig.run()
    ended = seen(rig, ToolCallFinished)[0]
    assert (ended.ok, rig.sandbox.files) == (False, {})
    assert "give the text itself" in ended.result
    assert [message.role for message in rig.provider.requests[-1].messages].count(Role.TOOL) == 1
    check_copied(given_call("write", path="a.py", content="[left out by lmtui to save room: {things}"))
    shown = worked_example(ToolRegistry().specs())
    (path,) = {json.loads(each.arguments)["path"] for message in shown for each in message.tool_calls if each.name == "read"}
    command = next(each.arguments for message in shown for each in message.tool_calls if each.name == "shell")
    provider = FakeProvider(
        answer("", ("write", json.dumps({"path": path, "content": "x"})), ("shell", command)), answer("done")
    )
    rig = await ran(Rig(provider, FakeSandbox(), mode=Mode.AUTO))
    results = [event.result for event in seen(rig, ToolCallFinished)]
    assert [result.partition(" ")[2] for result in results] == [
        "is only in the example and does not exist. Look with ls for the files of this task."
    ] * 2
    assert rig.sandbox.files == {}
    check_copied(given_call("write", path="notes.md", content=f"{path} is the example"))
