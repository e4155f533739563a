from __future__ import annotations

import asyncio
from datetime import UTC

from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.core.events import Event, MessageAdded, TextDelta, ToolCallFinished, ToolCallStarted, TurnStarted
from lmtui.core.messages import Role
from lmtui.tui.lines.transcript import Transcript
from tests.sets import depth
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled

ACTS = st.lists(st.sampled_from(["stream", "message", "call", "fold", "theme", "search", "copy"]), min_size=1, max_size=6)


def answer(number: int) -> MessageAdded:
    words = f"answer {number} " + "with words of all lengths and *marks* " * (number % 17)
    return MessageAdded(role=Role.ASSISTANT, text=f"{words}\n\n- a\n- b\n\n```python\nx = {number}\n```", thinking="why\nnot")


def talk(turns: int) -> list[Event]:
    made: list[Event] = []
    for number in range(turns):
        made += [MessageAdded(role=Role.USER, text=f"question {number}"), answer(number), *call(number)]
    return made


def call(number: int) -> list[Event]:
    return [
        ToolCallStarted(call_id=f"c{number}", tool="shell", arguments={"command": "x\ny"}, title=f"run {number}"),
        ToolCallFinished(call_id=f"c{number}", tool="shell", ok=True, result="a\nb\nc\nd", elapsed_ms=5),
    ]


def do(transcript: Transcript, act: str, number: int) -> None:
    apply = transcript.apply
    match act:
        case "stream":
            for each in envelopes([TextDelta(text=f"more {number}\n\n| a |\n|---|\n| b |\n\n")] * 5):
                apply(each)
        case "message":
            for each in envelopes([answer(number)]):
                apply(each)
        case "call":
            for each in envelopes(call(1000 + number)):
                apply(each)
        case "fold":
            transcript.cursor.toggle(number % 10)
        case "theme":
            transcript.app.theme = "textual-light" if number % 2 else "textual-dark"
        case "search":
            transcript.search.find("words", step=0)
        case "copy":
            transcript.action_copying("start")
            transcript.action_copying("leave")


async def moved(acts: list[str], up: int) -> tuple[list[str], list[str]]:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(60, 14)) as pilot:
        for each in envelopes([TurnStarted(turn_id="t"), *talk(30)]):
            transcript.apply(each)
        await settled(pilot)
        transcript.scroller.move(-up)
        await settled(pilot)
        before = screen_lines(transcript)
        for number, act in enumerate(acts):
            do(transcript, act, number)
            await settled(pilot)
        return before[:-1], screen_lines(transcript)[:-1]


@settings(max_examples=depth(6, 12))
@given(ACTS, st.integers(20, 90))
def test_a_reader_who_is_not_at_the_end_is_moved_by_nothing(acts: list[str], up: int) -> None:
    before, after = asyncio.run(moved(acts, up))
    assert after == before


async def test_a_resize_leaves_the_block_at_the_top_where_it_is() -> None:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(60, 14)) as pilot:
        for each in envelopes(talk(30)):
            transcript.apply(each)
        await settled(pilot)
        transcript.scroller.move(-70)
        await settled(pilot)
        block = transcript.scroller.at_top()[0]
        for width in (90, 41, 60):
            await pilot.resize_terminal(width, 14)
            assert transcript.scroller.at_top()[0] == block
