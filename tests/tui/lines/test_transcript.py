from __future__ import annotations

from datetime import UTC

from lmtui.core.events import Event, MessageAdded, ToolCallFinished, ToolCallStarted
from lmtui.core.messages import Role
from lmtui.tui.lines.document import Block
from lmtui.tui.lines.styled_text import Line
from lmtui.tui.lines.transcript import Transcript
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled


def user(text: str) -> MessageAdded:
    return MessageAdded(role=Role.USER, text=text)


def answer(text: str) -> MessageAdded:
    return MessageAdded(role=Role.ASSISTANT, text=text)


def call(call_id: str, ok: bool = True) -> list[Event]:
    return [
        ToolCallStarted(call_id=call_id, tool="shell", arguments={}, title=f"run {call_id}"),
        ToolCallFinished(call_id=call_id, tool="shell", ok=ok, result="a\nb\nc\nd", elapsed_ms=5),
    ]


def filled(transcript: Transcript, events: list[Event]) -> None:
    for envelope in envelopes(events):
        transcript.apply(envelope)


def talk(turns: int) -> list[Event]:
    made: list[Event] = []
    for number in range(turns):
        words = f"answer {number} " + "with words " * (number % 40)
        made += [user(f"question {number}"), answer(f"{words}\n\n- a\n- b"), *call(f"c{number}", ok=number % 5 != 0)]
    return made


async def test_a_call_unfolds_by_key_and_folds_by_click() -> None:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(60, 12)) as pilot:
        filled(transcript, call("c1"))
        await settled(pilot)
        assert [line.strip("▌ ") for line in screen_lines(transcript)[1:3]] == ["│ c", "│ d"]
        await pilot.press("up", "space")
        assert [line.strip("▌ ") for line in screen_lines(transcript)[1:5]] == ["a", "b", "c", "d"]
        await pilot.click(Transcript, offset=(3, 0))
        assert "│ c" in screen_lines(transcript)[1]


async def test_jumps_go_to_turns() -> None:
    transcript = Transcript(zone=UTC)
    async with Stage(transcript).run_test(size=(60, 12)) as pilot:
        filled(transcript, talk(12))
        await settled(pilot)
        for step, found in ((-1, "question 11"), (-1, "question 10"), (1, "question 11")):
            transcript.action_turn(step)
            assert transcript.copy_text() == found


async def test_nothing_is_drawn_while_nothing_happens() -> None:
    transcript = Transcript(zone=UTC)
    stage = Stage(transcript)
    async with stage.run_test(size=(60, 12)) as pilot:
        filled(transcript, talk(3))
        await settled(pilot)
        before = stage.frames
        await pilot.pause(0.3)
        assert before > 0
        assert stage.frames == before


async def test_only_blocks_in_view_are_drawn() -> None:
    drawn: list[int] = []

    class CountingBlock(Block):
        def estimate(self, width: int) -> int:
            return 3

        def body(self, width: int) -> list[Line]:
            drawn.append(width)
            return [(("x", ""),)]

        def copy_text(self) -> str:
            return "x"

    view = Transcript()
    async with Stage(view).run_test(size=(60, 12)) as pilot:
        for _ in range(5000):
            view.document.append(CountingBlock())
        view.touch()
        await settled(pilot)
        assert len(drawn) < 40
        await pilot.press("pageup")
        assert len(drawn) < 60
