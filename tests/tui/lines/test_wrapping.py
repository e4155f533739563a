from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lmtui.tui.lines.styled_text import fold, plain


@given(st.text("abc é漢🙂-", max_size=60), st.integers(2, 30))
def test_the_rows_of_a_line_are_the_line_and_none_is_too_wide(text: str, width: int) -> None:
    rows = [plain(row) for row in fold(((text, ""),), width)]
    assert "".join(rows) == text
    assert all(cell_len(row) <= width for row in rows)
