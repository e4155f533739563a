from __future__ import annotations

from lmtui.core.events import ToolCallStarted
from lmtui.tui.lines.calls import CallBlock, argument_lines
from lmtui.tui.lines.styled_text import plain, width_of


def test_arguments_are_whole_clean_and_no_wider_than_there_is_room() -> None:
    lines = argument_lines({"a very long name of an argument": "漢字" * 200, "b": "x" * 500}, 30)
    assert max(map(width_of, lines)) <= 30
    controls = "".join(map(plain, argument_lines({"\x1b[31mname": "\x1b]52;c;eA==\x07text"}, 40)))
    assert "\x1b" not in controls
    assert "52;c;eA==" in controls
    text = "\n".join(f"line {number}" for number in range(30))
    block = CallBlock(ToolCallStarted(call_id="c", tool="write", arguments={"path": "a", "text": text}, title="a"))
    assert len(block.body(60)) == 1
    block.is_folded = False
    assert len(block.body(60)) == 32
    assert "line 29" in block.search_text()
