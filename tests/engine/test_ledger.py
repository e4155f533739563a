from __future__ import annotations

import pytest

from lmtui.core.messages import Image, Message, ModelRequest, Role, ToolCallFormat, ToolSpec
from lmtui.engine.context_budget import PromptCacheTracker, PromptCacheUsage

TOOLS = (ToolSpec("read", "reads", {}),)
ALL = tuple(Message(Role.USER, f"message {number}") for number in range(10))


def request(
    *messages: Message, model: str = "m", form: ToolCallFormat = ToolCallFormat.NATIVE, tools: tuple[ToolSpec, ...] = TOOLS
) -> ModelRequest:
    return ModelRequest(messages, tools, model, call_form=form)


class Book:
    """A ledger in which every message has 100 tokens and the tools 200; the server counts as we do."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.sized = 0
        self.ledger = PromptCacheTracker(self._size)
        self.is_slow = is_slow

    def _size(self, _: Message) -> int:
        self.sized += 1
        return 100

    def send(self, sent: ModelRequest, told: int | None = None, revision: int = 0, change: str = "") -> PromptCacheUsage:
        total = self.ledger.begin(sent, 200, revision, change).total
        return self.ledger.settle(total, told, scaled=lambda size: size, is_slow=lambda _: self.is_slow)

    def sent(self, count: int, told: int | None = None) -> Book:
        self.send(request(*ALL[:count]), told)
        return self


def test_the_first_request_is_new() -> None:
    assert Book().send(request(*ALL[:3])) == PromptCacheUsage(0, 0, 500, is_told=False, miss="first request")


def test_what_was_sent_before_is_reused_and_only_what_was_added_is_sized() -> None:
    book = Book().sent(3)
    before = book.sized
    assert (book.send(request(*ALL[:5])), book.sized) == (PromptCacheUsage(500, 0, 200, is_told=False, miss=""), before + 2)


def test_what_the_server_tells_counts() -> None:
    book = Book().sent(3, 0)
    assert book.send(request(*ALL[:6]), 590) == PromptCacheUsage(590, 0, 210, is_told=True, miss="")
    assert book.send(request(*ALL[:7]), 795) == PromptCacheUsage(795, 0, 105, is_told=True, miss="")


def test_a_server_that_always_tells_zero_tells_nothing() -> None:
    assert Book().sent(3, 0).send(request(*ALL[:5]), 0) == PromptCacheUsage(500, 0, 200, is_told=False, miss="")


@pytest.mark.parametrize(("told", "cause"), [(0, "restart or unload"), (300, "slot was taken")])
def test_a_server_that_reused_less_than_it_could_names_the_cause(told: int, cause: str) -> None:
    book = Book().sent(3, 0)
    book.send(request(*ALL[:5]), 500)
    assert book.send(request(*ALL[:7]), told) == PromptCacheUsage(told, 700 - told, 200, is_told=True, miss=cause)


def test_a_picture_on_the_way_is_named() -> None:
    book = Book()
    seen = Message(Role.USER, "look", images=(Image("a", "image/png", b"1"),))
    book.send(request(ALL[0], seen), 100)
    assert book.send(request(ALL[0], seen, ALL[1]), 200).miss == "picture"


@pytest.mark.parametrize(("changed", "cause"), [
    (request(*ALL[:5], model="other"), "model changed"),
    (request(*ALL[:5], form=ToolCallFormat.TEXT), "call form changed"),
    (request(*ALL[:5], tools=()), "tools changed"),
])  # fmt: skip
def test_what_stands_before_the_messages_costs_all_of_them(changed: ModelRequest, cause: str) -> None:
    assert Book().sent(3).send(changed) == PromptCacheUsage(0, 500, 200, is_told=False, miss=cause)


def test_what_was_made_smaller_costs_the_reading_of_what_stayed_behind_it() -> None:
    book = Book().sent(6)
    shorter = Message(Role.USER, "[left out]")
    found = book.send(request(*ALL[:2], shorter, *ALL[3:7]), revision=1, change="compaction")
    assert found == PromptCacheUsage(400, 300, 200, is_told=False, miss="compaction")
    assert book.send(request(*ALL[:2], shorter, *ALL[3:8]), revision=1, change="compaction").miss == ""


def test_a_rewind_costs_nothing_but_what_is_new() -> None:
    book = Book().sent(6)
    assert book.send(request(*ALL[:3], ALL[8]), revision=1, change="rewound") == PromptCacheUsage(
        500, 0, 100, is_told=False, miss="rewound"
    )


def test_a_reading_that_took_far_too_long_was_one_of_everything() -> None:
    book = Book(is_slow=True).sent(6)
    assert book.send(request(*ALL[:7])) == PromptCacheUsage(0, 800, 100, is_told=False, miss="unknown")


def test_sizes_of_another_way_of_counting_are_counted_anew() -> None:
    book = Book().sent(3)
    before = book.sized
    book.ledger.size_anew()
    assert (book.sized, book.send(request(*ALL[:5]))) == (before + 3, PromptCacheUsage(500, 0, 200, is_told=False, miss=""))


def test_what_the_server_counted_for_the_request_before_is_what_it_can_reuse() -> None:
    ledger = PromptCacheTracker(lambda _: 100)
    found = PromptCacheUsage(0, 0, 0, is_told=False, miss="")
    for messages, counted in ((ALL[:3], 900), (ALL[:5], 1150)):
        ledger.begin(request(*messages), 200, 0, "")
        found = ledger.settle(counted, None, scaled=lambda size: size, is_slow=lambda _: False)
    assert (found.reused, found.reread, found.new) == (900, 0, 250)
