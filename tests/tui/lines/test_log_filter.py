from __future__ import annotations

from lmtui.core.events import ToolCallFinished
from lmtui.tui.lines.tool_log import ToolLog
from tests.tui.lines.stage import screen_lines, settled, until
from tests.tui.lines.test_tool_log import LogStage, fill, finished, started


async def test_a_filter_shows_what_fits_now_and_what_comes_to_fit_it() -> None:
    log = ToolLog()
    stage = LogStage(log)
    async with stage.run_test(size=(80, 10)) as pilot:
        fill(log, [started("a", "one.py"), started("b", "two.py"), started("c", "three.py", agent="docs")])
        log.narrow("state:failed")
        await settled(pilot)
        assert log.source.counts == (0, 3)
        assert "No call fits" in screen_lines(log)[0]
        fill(log, [ToolCallFinished(call_id="b", tool="read", ok=False, result="", elapsed_ms=1, decision="no")])
        await settled(pilot)
        assert log.source.counts == (1, 3)
        assert screen_lines(log)[0].split() == ["✗", "root", "read", "two.py", "no"]
        log.narrow("state:running")
        fill(log, [finished("a")])
        assert [log.source.entry(row).call_id for row in range(log.source.total())] == ["c"]
        log.narrow("agent:docs")
        fill(log, [started("d", "four.py", agent="docs"), started("e", "five.py")])
        await settled(pilot)
        assert [line.split()[3] for line in screen_lines(log)[:2]] == ["three.py", "four.py"]
        await pilot.press("end", "enter")
        assert stage.opened == ["d"]
        log.narrow("")
        await settled(pilot)
        assert log.source.counts == (5, 5)


async def test_a_long_log_is_looked_through_in_slices() -> None:
    log = ToolLog()
    async with LogStage(log).run_test(size=(80, 10)) as pilot:
        fill(log, [started(str(at), f"file{at}.py") for at in range(20_000)])
        log.narrow("file19999")
        assert log.source.counts == (0, 20_000)
        await until(pilot, lambda: log.source.counts == (1, 20_000))
