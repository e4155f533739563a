from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lmtui.tui.lines.styled_text import plain, slice_line
from lmtui.tui.screens.viewer import FileText, Wrapping

LINES = st.lists(st.text("abc é漢🙂-", max_size=60), min_size=1, max_size=8)


@given(LINES, st.integers(2, 30))
def test_the_rows_of_a_line_are_the_line_and_none_is_too_wide(lines: list[str], width: int) -> None:
    wrapping = Wrapping(lines, width)
    text = FileText("", "\n".join(lines) + "\n")
    rows: dict[int, list[str]] = {number: [] for number in range(len(lines))}
    for row in range(wrapping.total):
        number, start, end = wrapping.locate(row)
        rows[number].append(plain(slice_line(text.line(number), start, end)))
        assert wrapping.row_of(number) <= row
    assert ["".join(found) for found in rows.values()] == lines
    assert all(cell_len(row) <= width for found in rows.values() for row in found)


def test_no_lines_have_no_rows() -> None:
    assert Wrapping([], 10).total == 0
