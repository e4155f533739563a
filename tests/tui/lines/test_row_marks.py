from __future__ import annotations

from collections.abc import Callable

from lmtui.core import events
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.table import RowCursor, Table
from lmtui.tui.lines.tool_log import ToolLog
from tests.sets import for_each
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled
from tests.tui.lines.test_file_tree import TreeStage

WORDS = ["alpha", "beta", "gamma"]


def table() -> Stage:
    view: Table[str] = Table(lambda word, width: ((word.ljust(width), ""),))
    view.show(WORDS)
    return Stage(view)


def log() -> Stage:
    view = ToolLog()
    for envelope in envelopes(
        [events.ToolCallStarted(call_id=f"c{at}", tool="read", title=each, arguments={}) for at, each in enumerate(WORDS)]
    ):
        view.apply(envelope)
    view.scroller.set_following(False)
    return Stage(view)


def tree() -> Stage:
    return TreeStage(FileTree())


def row_cursor(stage: Stage) -> RowCursor:
    assert isinstance(stage.view.cursor, RowCursor)
    return stage.view.cursor


def grounds(view: VirtualLineView) -> list[object]:
    return [segment.style.bgcolor for y in range(3) for segment in list(view.render_line(y))[:1] if segment.style]


@for_each("make", [table, log, tree])
async def test_the_row_under_the_cursor_has_a_bar_and_the_one_under_the_pointer_its_ground(make: Callable[[], Stage]) -> None:
    stage = make()
    async with stage.run_test(size=(40, 6)) as pilot:
        await settled(pilot)
        row_cursor(stage).put(0)
        await settled(pilot)
        before = screen_lines(stage.view, has_bar=True)[:3]
        await pilot.press("down")
        after = screen_lines(stage.view, has_bar=True)[:3]
        assert [line[:1] for line in before] == ["▌", " ", " "]
        assert [line[:1] for line in after] == [" ", "▌", " "]
        assert [line[1:] for line in before] == [line[1:] for line in after]
        assert grounds(stage.view)[1] != grounds(stage.view)[0] == grounds(stage.view)[2]
        row_cursor(stage).put(0)
        await pilot.hover(type(stage.view), offset=(5, 2))
        marked, plain_row, under = grounds(stage.view)
        assert under == marked != plain_row
        assert screen_lines(stage.view, has_bar=True)[2][:1] == " "
        strips = [stage.view.render_line(y) for y in range(3)]
        await pilot.hover(type(stage.view), offset=(9, 2))
        assert all(stage.view.render_line(y) is strip for y, strip in enumerate(strips))
        await pilot.hover(type(stage.view), offset=(9, 5))
        assert grounds(stage.view)[2] == plain_row
