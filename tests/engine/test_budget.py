from __future__ import annotations

import random

from lmtui.core.messages import Completion, FinishReason, Image, Message, Role, Timings, ToolCall, ToolSpec, Usage
from lmtui.core.servers import ModelProfile
from lmtui.core.window import bytes_by_four
from lmtui.engine.context_budget import Budget
from tests.sets import for_each

TOOLS = tuple(ToolSpec(f"tool{number}", "does something with a file " * 4, {"type": "object"}) for number in range(12))


def completion(
    prompt: int = 1000, wrote: int = 50, first_s: float = 0.0, decode_s: float = 0.0, timings: Timings | None = None
) -> Completion:
    return Completion(
        Message(Role.ASSISTANT, ""), FinishReason.STOP, Usage(prompt, wrote), first_s, decode_s, timings=timings
    )  # fmt: skip


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
        text = "word " * chance.randrange(10, 1500)
        added = Message(Role.TOOL, text, call_id="c1")
        messages.append(added)
        real += ratio * budget.size(added) * chance.uniform(0.95, 1.05)
        raw = budget.raw(messages, TOOLS)
        misses.append(abs(budget.estimate(raw) / real - 1))
        budget.learn_size(raw, round(real))
    assert max(misses[2:]) < 0.1


def test_after_room_was_made_the_estimate_still_holds() -> None:
    budget = Budget()
    messages = [Message(Role.USER, "word " * 400) for _ in range(12)]
    for count in range(1, 13):
        raw = budget.raw(messages[:count], TOOLS)
        budget.learn_size(raw, round(1.4 * raw + 200))
    half = budget.raw(messages[:5], TOOLS)
    assert abs(budget.estimate(half) / (1.4 * half + 200) - 1) < 0.1


def test_a_count_out_of_this_world_moves_the_ratio_only_so_far() -> None:
    budget = Budget()
    budget.learn_size(100, 100_000)
    assert budget.token_ratio == 3.0
    budget.learn_size(100_000, 100)
    assert budget.token_ratio == 0.4


def test_a_model_starts_from_what_was_learned_of_it_and_another_one_anew() -> None:
    budget = Budget()
    budget.use("a", ModelProfile(token_ratio=1.25, read_tokens_per_s=300, write_tokens_per_s=20))
    assert (budget.estimate(1000), budget.read_s(900), budget.write_tokens_per_s) == (1250, 3.0, 20)
    budget.learn_size(1000, 1500)
    budget.use("a", ModelProfile(token_ratio=1.25))
    assert budget.token_ratio == 1.5
    budget.use("b", ModelProfile())
    assert (budget.estimate(1000), budget.read_s(900), budget.is_ratio_known) == (1000, 0.0, False)


def test_each_message_is_counted_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return bytes_by_four(text)

    budget = Budget(count)
    messages = [Message(Role.USER, f"text {number}") for number in range(50)]
    budget.raw(messages, TOOLS)
    before = [text for text in counted if text.startswith("text")]
    budget.raw([*messages, Message(Role.USER, "text new")], TOOLS)
    after = [text for text in counted if text.startswith("text")]
    assert (len(before), len(after)) == (50, 51)


def test_a_counter_that_gets_better_counts_everything_anew() -> None:
    factor = 1

    def count(text: str) -> int:
        return factor * bytes_by_four(text)

    budget = Budget(count)
    messages = [Message(Role.USER, "x" * 396)]
    assert budget.raw(messages, ()) == 103
    budget.use("model", ModelProfile(token_ratio=1.1))
    budget.learn_size(103, 90)
    factor, before = 2, budget.generation
    assert (budget.raw(messages, ()), budget.generation, budget.token_ratio) == (202, before + 1, 1.1)


def test_calls_pictures_and_tools_are_counted() -> None:
    budget = Budget()
    plain = budget.size(Message(Role.ASSISTANT, "hello"))
    assert budget.size(Message(Role.USER, "hello", images=(Image("a", "image/png", b"1"),))) == plain + 1000
    assert budget.size(Message(Role.ASSISTANT, "hello", tool_calls=(ToolCall("c", "read", '{"path": "a.py"}'),))) > plain + 8
    assert budget.tools_size(TOOLS) > 12 * 25


def test_broken_arguments_are_counted_as_they_are_sent() -> None:
    broken = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "read", "[" * 100_000),))
    assert Budget().size(broken) < 20


def test_speeds_are_the_servers_own_where_it_tells_them() -> None:
    budget = Budget()
    budget.learn_speed(completion(first_s=9.0, decode_s=9.0, timings=Timings(800, 2.0, 200, 60, 3.0)), 1000)
    assert (budget.read_tokens_per_s, budget.write_tokens_per_s) == (400.0, 20.0)


def test_else_they_follow_from_the_wait_for_the_first_token() -> None:
    budget = Budget()
    budget.learn_speed(completion(wrote=51, first_s=2.0, decode_s=5.0), 1000)
    assert (budget.read_tokens_per_s, budget.write_tokens_per_s) == (500.0, 10.0)
    budget.learn_speed(completion(first_s=3.0), 40)
    assert budget.read_tokens_per_s == 500.0


@for_each(("window", "speed", "chars"), [
    (2048, 0, 1792), (8192, 0, 7168), (0, 0, 7168), (32768, 0, 24_000), (8192, 50, 3500), (8192, 5, 1000), (400, 0, 1000),
])  # fmt: skip
def test_a_result_gets_a_quarter_of_the_window_and_twenty_seconds_of_reading(window: int, speed: float, chars: int) -> None:
    budget = Budget()
    budget.use("model", ModelProfile(read_tokens_per_s=speed))
    assert budget.result_chars(window) == chars
