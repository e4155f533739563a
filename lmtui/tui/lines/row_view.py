"""A pane of rows, one line each, with a cursor on a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from textual import events
from textual.message import Message

from lmtui.tui.lines.line_view import LineView
from lmtui.tui.lines.styled_text import Line, fill
from lmtui.tui.lines.surface import WidgetOptions


class RowView(LineView, can_focus=True, inherit_bindings=False):
    """Shows rows.  Subclasses give `line_total` and `row_at`, and `choose` what the cursor is on."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.cursor = 0

    @abstractmethod
    def row_at(self, row: int) -> Line:
        """Return one row, without its cursor."""

    def line_at(self, line: int) -> Line:
        """Return one row; the cursor's, while the pane has the focus, on its own ground."""
        if line >= self.line_total():
            return ()
        found = self.row_at(line)
        return fill(found, self.content_width, "cursor") if line == self.cursor and self.shows_cursor else found

    @property
    def shows_cursor(self) -> bool:
        """Tell whether the cursor is drawn: while the pane has the focus."""
        return self.has_focus

    def move_cursor(self, rows: int) -> None:
        """Move the cursor and bring it into view."""
        self.put_cursor(self.cursor + rows)

    def move_to_edge(self, is_end: bool) -> None:
        """Put the cursor on the first or the last row; the last is followed."""
        self.put_cursor(self.line_total() - 1 if is_end else 0)

    def put_cursor(self, row: int) -> None:
        """Put the cursor on a row and bring it into view."""
        before = self.cursor
        self.cursor = max(0, min(self.line_total() - 1, row))
        top = self.scroll_offset.y
        height = max(1, self.size.height)
        if self.cursor < top:
            self.jump(self.cursor)
        elif self.cursor >= top + height:
            self.jump(self.cursor - height + 1)
        self.note_place()
        self.repaint_row(before)
        self.repaint_row(self.cursor)

    def repaint_row(self, row: int) -> None:
        """Draw a row again, and nothing else."""
        self.forget_line(row)
        self.refresh_line(row)

    def page(self, pages: int) -> None:
        """Move the cursor by pages."""
        self.put_cursor(self.cursor + pages * max(1, self.size.height - 1))

    def action_page_up(self) -> None:
        """Move the cursor one page up."""
        self.page(-1)

    def action_page_down(self) -> None:
        """Move the cursor one page down."""
        self.page(1)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.repaint_row(self.cursor)

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.repaint_row(self.cursor)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row and act on it, unless text was selected."""
        row = event.y + self.scroll_offset.y
        if self.text_selection is None and 0 <= row < self.line_total():
            self.put_cursor(row)
            self.choose()


OPEN, SHUT = "▾ ", "▸ "


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One row: `make` draws it for a width.  `key` is empty for a group's own line and else unique in its group."""

    group: str
    key: str
    make: Callable[[int], Line]


class GroupedList(RowView, can_focus=True, inherit_bindings=False):
    """Shows groups of rows; choosing a group's own line folds it or unfolds it."""

    class Marked(Message):
        """The cursor came to another row, or the rows changed."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._all: Sequence[GroupRow] = ()
        self.rows: list[GroupRow] = []
        self.shut: set[str] = set()

    @property
    def current(self) -> GroupRow | None:
        """Return the row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def show(self, rows: Sequence[GroupRow]) -> None:
        """Show rows; the cursor stays on its row if that is still there."""
        before = self.current
        self._all = rows
        self.rows = [row for row in rows if not row.key or row.group not in self.shut]
        places = ((row.group, row.key) for row in self.rows)
        wanted = (before.group, before.key) if before else ("", "")
        found = next((at for at, place in enumerate(places) if place == wanted), self.cursor)
        self.cursor = max(0, min(found, len(self.rows) - 1))
        self.redraw()
        self.post_message(self.Marked())

    def line_total(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def row_at(self, row: int) -> Line:
        """Return a row, a group's own line with its sign before it."""
        each = self.rows[row]
        line = each.make(self.content_width - len(OPEN))
        sign = "  " if each.key else SHUT if each.group in self.shut else OPEN
        return ((sign, "muted"), *line)

    def put_cursor(self, row: int) -> None:
        """Move the cursor and tell."""
        super().put_cursor(row)
        self.post_message(self.Marked())

    def choose(self) -> None:
        """Fold the group under the cursor, or unfold it."""
        current = self.current
        if current is not None:
            self.shut ^= {current.group}
            first = next(at for at, row in enumerate(self.rows) if row.group == current.group)
            self.cursor = first
            self.show(self._all)
