from __future__ import annotations

import random
from typing import Any

from lmtui.core.events import Event, MessageAdded, ToolCallFinished, ToolCallStarted, TurnStarted
from lmtui.core.messages import Image, Message, ModelRequest, Role, ToolCall, ToolSpec
from lmtui.core.servers import ModelProfile
from lmtui.core.window import WindowItem
from lmtui.engine.context_budget import Budget, PromptCacheTracker, PromptCacheUsage
from lmtui.engine.session import RequestParts
from tests.fakes import FakeProvider, Rig
from tests.sets import for_each

TOOLS = tuple(ToolSpec(f"tool{number}", "does something with a file " * 4, {"type": "object"}) for number in range(12))


@for_each("ratio", [0.7, 0.85, 1.0, 1.3, 1.6])
@for_each("overhead", [0, 40, 400])
@for_each("seed", range(4))
def test_after_two_requests_the_estimate_is_within_a_tenth(ratio: float, overhead: int, seed: int) -> None:
    chance = random.Random(seed)
    budget = Budget()
    budget.use("model", ModelProfile())
    messages = [Message(Role.SYSTEM, "system " * 150)]
    real = overhead + ratio * budget.raw(messages, TOOLS)
    misses: list[float] = []
    for _ in range(30):
        added = Message(Role.TOOL, "word " * chance.randrange(10, 1500), call_id="c1")
        messages.append(added)
        real += ratio * budget.size(added) * chance.uniform(0.95, 1.05)
        raw = budget.raw(messages, TOOLS)
        misses.append(abs(budget.estimate(raw) / real - 1))
        budget.learn_size(raw, round(real))
    assert max(misses[2:]) < 0.1


def test_a_model_starts_from_what_was_learned_and_no_count_moves_the_ratio_far() -> None:
    budget = Budget()
    budget.learn_size(100, 100_000)
    assert budget.token_ratio == 3.0
    budget.learn_size(100_000, 100)
    assert budget.token_ratio == 0.4
    budget = Budget()
    budget.use("a", ModelProfile(token_ratio=1.25, read_tokens_per_s=300, write_tokens_per_s=20))
    assert (budget.estimate(1000), budget.read_s(900), budget.write_tokens_per_s) == (1250, 3.0, 20)
    budget.learn_size(1000, 1500)
    budget.use("a", ModelProfile(token_ratio=1.25))
    assert budget.token_ratio == 1.5
    budget.use("b", ModelProfile())
    assert (budget.estimate(1000), budget.read_s(900)) == (1000, 0.0)


class Counting(Budget):
    asked = 0

    def size(self, value: Message | ToolSpec) -> int:
        self.asked += 1
        return super().size(value)


def test_a_request_that_grew_is_sized_by_what_is_new_and_one_that_changed_as_a_whole() -> None:
    budget, messages = Counting(), tuple(Message(Role.USER, f"message {number}") for number in range(100))
    whole = budget.raw(messages[:99], ())
    assert (budget.raw(messages, ()), budget.asked) == (whole + budget.size(messages[99]), 100)
    assert (budget.raw(messages[1:], ()), budget.asked) == (Budget().raw(messages[1:], ()), 200)


def test_calls_pictures_and_tools_are_counted_and_broken_arguments_as_they_are_sent() -> None:
    budget = Budget()
    plain = budget.size(Message(Role.ASSISTANT, "hello"))
    assert budget.size(Message(Role.USER, "hello", images=(Image("a", "image/png", b"1"),))) == plain + 1000
    assert budget.size(Message(Role.ASSISTANT, "hello", tool_calls=(ToolCall("c", "read", '{"path": "a.py"}'),))) > plain + 8
    assert budget.tools_size(TOOLS) > 12 * 25
    broken = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "read", "[" * 100_000),))
    assert Budget().size(broken) < 20


@for_each(("window", "speed", "chars"), [
    (2048, 0, 1792), (8192, 0, 7168), (0, 0, 7168), (32768, 0, 24_000), (8192, 50, 3500), (8192, 5, 1000), (400, 0, 1000),
])  # fmt: skip
def test_a_result_gets_a_quarter_of_the_window_and_twenty_seconds_of_reading(window: int, speed: float, chars: int) -> None:
    budget = Budget()
    budget.use("model", ModelProfile(read_tokens_per_s=speed))
    assert budget.result_chars(window) == chars


ALL = tuple(Message(Role.USER, f"message {number}") for number in range(10))
SHORTER = (*ALL[:2], Message(Role.USER, "[left out]"), *ALL[3:7])


def sent(messages: tuple[Message, ...], told: int | None = None, change: str = "", **more: Any) -> tuple[Any, ...]:
    return ModelRequest(messages, **{"tools": TOOLS[:1], "model": "m", **more}), told, change


@for_each(("requests", "is_slow", "reused", "reread", "new", "miss"), [
    ([sent(ALL[:3])], False, 0, 0, 500, "first request"), ([sent(ALL[:3]), sent(ALL[:5])], False, 500, 0, 200, ""),
    ([sent(ALL[:3]), sent(ALL[:5], model="other")], False, 0, 500, 200, "model changed"),
    ([sent(ALL[:3]), sent(ALL[:5], tools=())], False, 0, 300, 200, "tools changed"),
    ([sent(ALL[:3], 0), sent(ALL[:5], 500), sent(ALL[:7], 0)], False, 0, 700, 200, "server restarted"),
    ([sent(ALL[:3], 0), sent(ALL[:5], 500), sent(ALL[:7], 300)], False, 300, 400, 200, "slot was taken"),
    ([sent(ALL[:6]), sent(SHORTER, change="compaction")], False, 400, 300, 200, "compaction"),
    ([sent(ALL[:6]), sent((*ALL[:3], ALL[8]), change="rewound")], False, 500, 0, 100, "rewound"),
    ([sent(ALL[:6]), sent(ALL[:7])], True, 0, 800, 100, "unknown"),
])  # fmt: skip
def test_what_was_sent_before_is_reused_as_far_as_it_is_the_same_and_else_the_cause_is_named(
    requests: list[tuple[Any, ...]], is_slow: bool, reused: int, reread: int, new: int, miss: str
) -> None:
    budget = Budget(lambda text: 192 if text.startswith("tool") else 96)  # 200 for the tool and 100 for a message
    ledger, found = PromptCacheTracker(budget), PromptCacheUsage(0, 0, 0, is_told=False, miss="")
    for request, told, change in requests:
        found = ledger.settle(ledger.begin(request, change).total, told, lambda _: is_slow)
    assert (found.reused, found.reread, found.new, found.miss) == (reused, reread, new, miss)


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


async def test_a_result_is_pinned_or_folded_by_hand_and_is_the_same_after_a_resume() -> None:
    window = begin(Rig(FakeProvider()))
    window.pin("c1")
    assert item_of(window).is_pinned
    window.pin("c1", is_pinned=False)
    assert not item_of(window).is_pinned
    window = begin(rig := Rig(FakeProvider()))
    before: list[Event] = rig.events
    for change in (window.fold, window.leave_out, window.bring_back, window.pin):
        change("c9")
        change("")
    assert rig.events == before
    window = begin(rig := Rig(FakeProvider()))
    for change in (window.fold, window.leave_out, window.bring_back, window.fold, window.pin):
        change("c1")
    await rig.run("go on")
    again = Rig(FakeProvider(), past=rig.log.events)
    assert (item_of(again.session.window_use), item_of(window).state) == (item_of(window), "folded")
    await again.run("more")
    sent = [message.text for message in again.provider.requests[-1].messages]
    assert sent[: len(rig.provider.requests[-1].messages)] == [message.text for message in rig.provider.requests[-1].messages]
