from __future__ import annotations

from lmtui.tui.modals.list_dialog import Column, column_cells
from tests.sets import for_each

COLUMNS = (Column(most=1), Column("title", 44), Column("state"), Column("folder", 16, from_width=72), Column("age", 6))


@for_each(
    ("width", "cells"), [(120, [1, 44, 56, 6, 5]), (80, [1, 44, 16, 6, 5]), (60, [1, 36, 12, 0, 5]), (40, [1, 30, 0, 0, 5])]
)
def test_columns_are_as_wide_as_what_is_in_them_and_one_takes_the_rest(width: int, cells: list[int]) -> None:
    row = [((text, ""),) for text in ("●", "x" * 60, "needs you", "src", "2 min")]
    assert column_cells(COLUMNS, [row], width) == cells  # type: ignore[list-item]  # a tuple of spans is a line
