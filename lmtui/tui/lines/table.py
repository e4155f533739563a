"""Tables: rows of one line each, with a cursor on a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, Unpack

from textual.message import Message

from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import Line, LineSource, Span, fill, slice_line
from lmtui.tui.timing import WidgetOptions

BAR: Span = ("▌", "accent")
BAR_CELLS = 1


class RowCursor:
    """A cursor on a row of a view, drawn while the view has the focus or `is_always_shown`.

    `moved` is called once it was put somewhere; `can_click` tells the rows that it can be on.
    """

    def __init__(
        self,
        view: VirtualLineView,
        moved: Callable[[], object] = lambda: None,
        can_click: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self.row = 0
        self.is_always_shown = False
        self._view = view
        self._moved = moved
        self.can_click = can_click

    def move(self, rows: int) -> None:
        """Move and be seen."""
        before = self.row
        self.put(self.row + rows)
        if self.row == before:
            self._view.scroller.move(rows)

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the first or the last row; the last is followed."""
        self.put(self._view.source.total() - 1 if is_end else 0)

    def put(self, row: int) -> None:
        """Go to a row, or past those that it cannot be on in the direction that it goes, and bring it into view."""
        last = self._view.source.total() - 1
        if last < 0:
            return
        row = max(0, min(last, row))
        ahead, back = range(row, last + 1), range(row, -1, -1)
        ways = (ahead, back) if row >= self.row else (back, ahead)
        found = next((each for way in ways for each in way if self.can_click(each)), -1)
        if found < 0:
            return
        before, self.row = self.row, found
        self.reveal()
        self._view.strips.forget(before)
        self._view.strips.forget(found)
        self._moved()

    def clamp(self) -> None:
        """Stay on a row that is there, whatever was taken away."""
        self.row = max(0, min(self.row, self._view.source.total() - 1))

    def reveal(self) -> None:
        """Bring the row into view, the rows before the first one too that it can be on."""
        view = self._view
        is_first = not any(self.can_click(row) for row in range(self.row))
        top = view.scroll_offset.y
        height = max(1, view.size.height)
        if is_first or self.row < top:
            view.jump(0 if is_first else self.row)
        elif self.row >= top + height:
            view.jump(self.row - height + 1)
        view.scroller.note_place()

    def mark(self, line: int, content: Line) -> Line:
        """Return a row; the cursor's on its own ground, with a bar in the cell that every row leaves free at its left."""
        is_here = line == self.row and (self._view.has_focus or self.is_always_shown) and self.can_click(line)
        return fill((BAR, *slice_line(content, 1)), self._view.content_width, "cursor") if is_here else content

    def click(self, line: int) -> None:
        """Go to a row and act on it."""
        self.put(line)
        self._view.action_select()


Row = TypeVar("Row")


class TableRows(LineSource, Generic[Row]):
    """The rows of a table; `draw` makes a line of one for a width.  The cell of the cursor's bar is before it."""

    lead_cells = BAR_CELLS

    def __init__(self, draw: Callable[[Row, int], Line]) -> None:
        self.rows: Sequence[Row] = ()
        self._draw = draw

    def total(self) -> int:
        return len(self.rows)

    def line(self, number: int) -> Line:
        return ((" ", ""), *self._draw(self.rows[number], self.width - BAR_CELLS))


class Table(VirtualLineView, Generic[Row], can_focus=True, inherit_bindings=False):
    """Shows rows, which `draw` makes lines of, with a cursor that can be on those that `can_mark` tells.

    When other rows are shown it stays on the row with the same `key`; without a key, in its place.
    """

    source: TableRows[Row]
    cursor: RowCursor

    class Marked(Message):
        """The cursor came to a row, or the rows changed."""

    class Chosen(Message):
        """The row under the cursor is wanted."""

    def __init__(
        self,
        draw: Callable[[Row, int], Line],
        key: Callable[[Row], object] | None = None,
        *,
        can_mark: Callable[[Row], bool] = lambda _: True,
        **options: Unpack[WidgetOptions],
    ) -> None:
        super().__init__(TableRows(draw), **options)
        self._key, self._can_mark = key, can_mark
        self.cursor = RowCursor(self, lambda: self.post_message(self.Marked()), lambda row: can_mark(self.rows[row]))

    @property
    def rows(self) -> Sequence[Row]:
        """Return the rows that are shown."""
        return self.source.rows

    @property
    def current(self) -> Row | None:
        """Return the row under the cursor."""
        row = self.rows[self.cursor.row] if self.cursor.row < len(self.rows) else None
        return row if row is not None and self._can_mark(row) else None

    def show(self, rows: Sequence[Row], at: object = None) -> None:
        """Show rows, with the cursor on the one with the key `at`; else it stays on its row, or in its place."""
        current, key = self.current, self._key
        wanted = at if at is not None or current is None or key is None else key(current)
        self.source.rows = rows
        self.cursor.clamp()
        if key is not None and wanted is not None:
            found = (index for index, row in enumerate(rows) if self._can_mark(row) and key(row) == wanted)
            self.cursor.row = next(found, self.cursor.row)
        if rows and not self._can_mark(rows[self.cursor.row]):
            places = [index for index, row in enumerate(rows) if self._can_mark(row)]
            self.cursor.row = min(places, key=lambda index: abs(index - self.cursor.row), default=self.cursor.row)
        self.redraw()
        self.post_message(self.Marked())
        if self.size and self.is_running:
            self.call_after_refresh(self.cursor.reveal)

    def action_select(self) -> None:
        """Tell that the row is wanted."""
        if self.current is not None:
            self.post_message(self.Chosen())
