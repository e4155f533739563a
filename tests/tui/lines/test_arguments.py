from __future__ import annotations

from lmtui.core.events import ToolCallFinished, ToolCallStarted
from lmtui.tui.lines.calls import CallBlock, argument_lines, has_long
from lmtui.tui.lines.styled_text import plain, width_of

LONG = "\n".join(f"line {number}" for number in range(30))


def shown(arguments: dict[str, object], *, is_all: bool = False, width: int = 40) -> list[str]:
    return [plain(line) for line in argument_lines(arguments, width, is_all=is_all)]


def test_no_line_is_wider_than_there_is_room() -> None:
    lines = argument_lines({"a very long name of an argument": "漢字" * 200, "b": "x" * 500}, 30, is_all=True)
    assert max(map(width_of, lines)) <= 30
    controls = "".join(shown({"\x1b[31mname": "\x1b]52;c;eA==\x07text"}))
    assert "\x1b" not in controls
    assert "52;c;eA==" in controls


def test_a_call_unfolds_in_two_steps_where_an_argument_is_long() -> None:
    block = CallBlock(ToolCallStarted(call_id="c", tool="write", arguments={"path": "a", "text": LONG}, title="a"))
    block.finish(ToolCallFinished(call_id="c", tool="write", ok=True, result="written", elapsed_ms=1))
    heights = []
    for _ in range(4):
        heights.append(len(block.body(60)))
        block.turn_over()
    assert heights[0] == heights[3] == 1
    assert heights[0] < heights[1] < heights[2]
    assert has_long({"text": LONG}, 60)
    assert "line 29" in block.search_text()
