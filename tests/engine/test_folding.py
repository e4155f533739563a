from __future__ import annotations

import pytest

from lmtui.core.events import MessageAdded, ToolCallFinished, ToolCallStarted, TurnStarted
from lmtui.core.messages import Message, Role, ToolCall
from lmtui.core.model_events import Compacted
from lmtui.core.plan import Plan
from lmtui.core.window import bytes_by_four
from lmtui.engine.context import Conversation
from lmtui.engine.context_fit import RoomNeeded, compact, summed_up
from lmtui.engine.transcript_summary import TranscriptSummary, truncate_middle
from tests.sets import for_each

LOG = "\n".join(
    ["==== test session starts", *(f"test {number} passed" for number in range(400)), "E   assert 1 == 2", "1 failed"]
)


def size_of(message: Message) -> int:
    return bytes_by_four(message.text) + sum(bytes_by_four(call.arguments) for call in message.tool_calls) + 4


class Talk:
    """A conversation of one task, made call by call."""

    def __init__(self, task: str = "make it work", attached: str = "") -> None:
        self.talk = Conversation("root", lambda *_: "prompt")
        self.say(task, attached)
        self.count = 0

    def say(self, text: str, attached: str = "") -> None:
        self.talk.apply(TurnStarted(turn_id=f"t{len(self.talk.entries)}"))
        self.talk.apply(MessageAdded(role=Role.USER, text=text, attached=attached))

    def call(self, tool: str, subject: str, result: str, *, ok: bool = True, summary: str = "") -> None:
        self.count += 1
        call = ToolCall(f"c{self.count}", tool, "{}")
        self.talk.apply(MessageAdded(role=Role.ASSISTANT, text="", tool_calls=(call,)))
        self.talk.apply(ToolCallStarted(call_id=call.id, tool=tool, arguments={}, title=subject))
        end = ToolCallFinished(call_id=call.id, tool=tool, ok=ok, result=result, elapsed_ms=1, summary=summary)
        self.talk.apply(end)

    def fill(self, count: int, chars: int = 800) -> None:
        for number in range(count):
            self.call("read", f"f{self.count}.py", f"line {number}\n" * (chars // 8))

    def make_room(self, window: int) -> Compacted:
        tokens = sum(map(size_of, self.talk.messages))
        room = RoomNeeded.of(window, 0, sum(map(size_of, self.talk.messages[:2])))
        event = compact(self.talk, Plan(), size_of, tokens, room=room, why="test")
        assert event is not None
        self.talk.apply(event)
        assert sum(map(size_of, self.talk.messages)) <= room.limit
        return event

    def result(self, number: int) -> str:
        return next(message.text for message in self.talk.messages if message.call_id == f"c{number}")


def test_of_a_failure_that_nothing_mended_the_lines_that_decide_stay() -> None:
    talk = Talk()
    talk.call("shell", "pytest -q", LOG, ok=False, summary="exit 1")
    talk.fill(8)
    assert "c1" in talk.make_room(3_000).folded
    assert talk.result(1).startswith("==== test session starts")
    assert talk.result(1).endswith("E   assert 1 == 2\n1 failed")
    assert len(talk.result(1)) <= 600


def test_of_a_failure_that_went_well_since_a_line_stays() -> None:
    talk = Talk()
    talk.call("shell", "pytest -q", LOG, ok=False, summary="exit 1")
    talk.call("shell", "pytest -q", "400 passed")
    talk.fill(8)
    talk.make_room(3_000)
    assert talk.result(1).startswith("[result of shell pytest -q, exit 1, ")
    assert "E   assert" not in talk.result(1)


def test_what_is_mended_later_becomes_a_line_later() -> None:
    talk = Talk()
    talk.call("shell", "pytest -q", LOG, ok=False, summary="exit 1")
    talk.fill(8)
    talk.make_room(3_000)
    talk.call("shell", "pytest -q", "400 passed")
    talk.fill(4)
    talk.make_room(2_000)
    assert talk.talk.folding.kept_from > 0 or talk.result(1).startswith("[result of shell")
    assert "E   assert" not in "".join(message.text for message in talk.talk.messages)


@pytest.mark.parametrize(("tool", "ok", "words"), [
    ("read", True, "left out; read it again if you need it]"), ("write", True, "left out; the file has it]"),
    ("edit", True, "left out; the file has it]"), ("grep", True, "left out; call it again if you need it]"),
])  # fmt: skip
def test_a_line_says_how_to_get_back_what_was_left_out(tool: str, ok: bool, words: str) -> None:
    talk = Talk()
    talk.call(tool, "a.py", "one line of it\n" * 100, ok=ok)
    talk.fill(8)
    talk.make_room(2_000)
    assert talk.result(1).endswith(words)


FILE = "<file>" + "a line of the file\n" * 150 + "</file>"


def test_what_came_with_the_users_last_words_is_out_when_they_are_summed_up() -> None:
    talk = Talk()
    talk.say("look at this", FILE)
    talk.fill(30, 400)
    assert talk.make_room(2_000).kept_from > 3
    assert "look at this" in talk.talk.messages[1].text
    assert "a line of the file" not in talk.talk.messages[1].text


def test_what_came_with_words_that_were_summed_up_before_can_go_later() -> None:
    talk = Talk()
    talk.say("look at this", FILE)
    talk.fill(4)
    talk.talk.apply(Compacted(why="", tokens_before=2, tokens_after=1, kept_from=5, summary="[summary]"))
    assert "a line of the file" in talk.talk.messages[1].text
    talk.fill(8)
    assert "message_2" in talk.make_room(2_400).elided
    assert "look at this" in talk.talk.messages[1].text
    assert "a line of the file" not in talk.talk.messages[1].text


def test_a_summary_in_letters_that_take_more_tokens_is_no_larger() -> None:
    gist = TranscriptSummary(said=["任务", *(f"第{number}句话" * 30 for number in range(40)), "最后"], answer="完成了" * 500)
    room = RoomNeeded.of(8_000, 0, 500)
    text = summed_up(gist, Plan(), room, lambda message: len(message.text))
    assert len(text) <= room.shares.total / 3.5 * 1.1
    assert "第39句话" in text or "第38句话" in text


@for_each("limit", [1, 20, 80, 300, 5_000, 100_000])
def test_an_excerpt_is_no_longer_than_it_may_be_and_has_the_end(limit: int) -> None:
    text = truncate_middle(LOG, limit)
    assert len(text) <= max(limit, 10)
    assert text.endswith("failed"[-1])
    assert (text == LOG) == (limit >= len(LOG))
