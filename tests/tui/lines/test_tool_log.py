from __future__ import annotations

from lmtui.core.events import Event, ToolCallFinished, ToolCallStarted, TurnEnded, TurnReason
from lmtui.tui.lines.tool_log import CallOpened, ToolLog
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled


class LogStage(Stage):
    def __init__(self, log: ToolLog) -> None:
        super().__init__(log)
        self.opened: list[str] = []

    def on_call_opened(self, message: CallOpened) -> None:
        self.opened.append(message.call_id)


def started(call_id: str, title: str = "parser/lexer.py", tool: str = "read", agent: str = "root") -> ToolCallStarted:
    return ToolCallStarted(call_id=call_id, tool=tool, arguments={}, title=title, agent=agent)


def finished(call_id: str, ok: bool = True, elapsed_ms: int = 12) -> ToolCallFinished:
    return ToolCallFinished(call_id=call_id, tool="read", ok=ok, result="", elapsed_ms=elapsed_ms)


def fill(log: ToolLog, events: list[Event]) -> None:
    for envelope in envelopes(events):
        log.apply(envelope)


async def test_one_agent_is_not_named_and_long_paths_are_cut_at_their_front() -> None:
    log = ToolLog()
    async with LogStage(log).run_test(size=(36, 8)) as pilot:
        await settled(pilot)
        assert "No tool calls yet." in screen_lines(log)[0]
        fill(log, [started("a", "tests/test_comments.py", "write"), finished("a", elapsed_ms=2100)])
        fill(log, [started("b", "x\x1b[31m\n\u202e.py")])
        await settled(pilot)
        assert screen_lines(log)[0] == " ✓ write   test_comments.py  2.1 s"
        assert "x⏎<U+202E>.py" in screen_lines(log)[1]


async def test_calls_left_open_by_a_turn_are_stopped() -> None:
    log = ToolLog()
    async with LogStage(log).run_test(size=(48, 5)) as pilot:
        fill(log, [started("a"), started("b", agent="child"), TurnEnded(turn_id="t", reason=TurnReason.INTERRUPTED)])
        await settled(pilot)
        assert [line.split()[0] for line in screen_lines(log)[:2]] == ["■", "●"]


async def test_it_follows_until_the_cursor_goes_up_and_opens_what_is_chosen() -> None:
    log = ToolLog()
    stage = LogStage(log)
    async with stage.run_test(size=(48, 5)) as pilot:
        fill(log, [started(str(number), f"file{number}") for number in range(50)])
        await settled(pilot)
        assert "file49" in screen_lines(log)[-1]
        await pilot.press("end", "up", "up", "enter")
        assert stage.opened == ["47"]
        await pilot.press("home")
        fill(log, [started("x", "newest")])
        await settled(pilot)
        assert "file0" in screen_lines(log)[0]
        await pilot.click(ToolLog, offset=(5, 2))
        assert stage.opened == ["47", "2"]


async def test_a_filter_shows_what_fits_now_and_what_comes_to_fit_it() -> None:
    log = ToolLog()
    stage = LogStage(log)
    async with stage.run_test(size=(80, 10)) as pilot:
        fill(log, [started("a", "one.py"), started("b", "two.py"), started("c", "three.py", agent="docs")])
        log.narrow("failed")
        await settled(pilot)
        assert log.source.counts == (0, 3)
        assert "No call fits" in screen_lines(log)[0]
        fill(log, [ToolCallFinished(call_id="b", tool="read", ok=False, result="", elapsed_ms=1, decision="no")])
        await settled(pilot)
        assert log.source.counts == (1, 3)
        assert screen_lines(log)[0].split() == ["✗", "main", "read", "two.py"]
        log.narrow("running")
        await settled(pilot)
        fill(log, [finished("a")])
        assert [log.source.entry(row).call_id for row in range(log.source.total())] == ["c"]
        log.narrow("")
        await settled(pilot)
        assert log.source.counts == (3, 3)
