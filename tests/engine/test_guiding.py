from __future__ import annotations

from lmtui.core.events import Notice, Rewound
from lmtui.core.instruction_values import GuidanceRead, GuidanceSource, Instructions
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted
from lmtui.engine.completion import MAX_GUIDANCE_CHARS, guidance_chars
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, Rig, answer


class Board:
    """Instructions that a test changes."""

    def __init__(self, text: str = "") -> None:
        self.guidance = Instructions(instructions=text)
        self.limits: list[int] = []

    async def read(self, limit_chars: int) -> Instructions:
        self.limits.append(limit_chars)
        return self.guidance


def systems(rig: Rig) -> list[str]:
    return [request.messages[0].text for request in rig.provider.requests]


async def test_they_stand_in_the_system_prompt_from_the_first_request_on() -> None:
    board = Board("use tabs")
    rig = await ran(Rig(FakeProvider(answer("", ("ls", "{}")), answer("one"), answer("two")), guide=board))
    await rig.run("more")
    assert len(set(systems(rig))) == 1
    assert systems(rig)[0].endswith("\n\nuse tabs")
    assert (len(rig.of("guidance_read")), len(board.limits)) == (1, 2)


async def test_a_change_is_told_at_the_end_and_the_prefix_stays() -> None:
    board = Board("use tabs")
    rig = await ran(Rig(FakeProvider(answer("one"), answer("two"), answer("three")), guide=board))
    board.guidance = Instructions(instructions="use spaces")
    await rig.run("more")
    board.guidance = Instructions()
    await rig.run("and more")
    first, second, third = (request.messages for request in rig.provider.requests)
    assert (second[: len(first)], third[: len(second)], second[-1].role) == (first, second, Role.USER)
    assert second[-1].text.endswith("use spaces")
    assert "hold no more" in third[-1].text


async def test_when_room_is_made_the_newest_join_the_system_prompt() -> None:
    board = Board("use tabs")
    rig = await ran(Rig(FakeProvider(answer("one"), answer("two"), answer("three")), guide=board))
    board.guidance = Instructions(instructions="use spaces")
    await rig.run("more")
    rig.session.emit(Compacted(why="no room", tokens_before=900, tokens_after=90, kept_from=5, summary="much was said"))
    await rig.run("and more")
    sent = [message.text for message in rig.provider.requests[-1].messages]
    assert sent[0].endswith("use spaces")
    assert not any("use tabs" in text for text in sent)
    assert len([text for text in sent if "use spaces" in text]) == 1


async def test_a_replay_sends_the_same() -> None:
    board = Board("use tabs")
    live = await ran(Rig(FakeProvider(answer("one"), answer("two")), guide=board))
    board.guidance = Instructions(persona="a pirate", instructions="use spaces")
    await live.run("more")
    again = await ran(Rig(FakeProvider(answer("three")), past=live.log.events, guide=board), "go on")
    sent = live.provider.requests[-1].messages
    assert again.provider.requests[0].messages[: len(sent)] == sent
    assert not seen(again, GuidanceRead)


async def test_rewinding_keeps_what_holds_now() -> None:
    board = Board("use tabs")
    rig = await ran(Rig(FakeProvider(answer("one"), answer("two"), answer("three")), guide=board))
    board.guidance = Instructions(instructions="use spaces")
    await rig.run("more")
    rig.session.emit(Rewound(turn_id="turn_2"))
    await rig.run("again")
    assert any("use spaces" in message.text for message in rig.provider.requests[-1].messages)


async def test_what_was_cut_or_not_read_is_said_once() -> None:
    board = Board("use tabs")
    source = GuidanceSource("instructions", "AGENTS.md", 10, is_cut=True)
    board.guidance = Instructions(instructions="use", sources=(source,), problems=("CLAUDE.md was not read: it is a link",))
    rig = await ran(Rig(FakeProvider(answer("one"), answer("two")), guide=board))
    board.guidance = Instructions(instructions="used", sources=(source,), problems=board.guidance.problems)
    await rig.run("more")
    told = [event.text for event in seen(rig, Notice)]
    assert told == ["AGENTS.md was cut: it takes more than 15% of the window", "CLAUDE.md was not read: it is a link"]


def test_they_get_a_share_of_the_window() -> None:
    assert guidance_chars(0) == guidance_chars(8_192) == 4_300
    assert guidance_chars(1_000_000) == MAX_GUIDANCE_CHARS
