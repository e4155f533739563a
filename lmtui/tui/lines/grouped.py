"""Rows in groups that fold: one line each, a group's own line with the sum of what is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from textual.message import Message

from lmtui.tui.lines.row_view import RowView
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line

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
