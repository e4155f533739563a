"""A pane over a document of blocks with a cursor on one of them: moves it, jumps with it, folds."""

from __future__ import annotations

from typing import Unpack

from textual import events

from lmtui.tui.lines.anchored import AnchoredView
from lmtui.tui.lines.blocks import Block, Mark
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line

_CURSOR: Line = (("▎", "accent"),)
_NO_CURSOR: Line = ((" ", ""),)


class BlockView(AnchoredView, can_focus=True, inherit_bindings=False):
    """Shows a `Document`; the cursor stands on a block."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.cursor = -1

    def line_at(self, line: int) -> Line:
        """Return a line of the block that is there, behind the cursor's mark."""
        if line >= self.document.total:
            return ()
        index, top = self.document.locate(line)
        lines = self.document.lines(index)
        at = line - top
        lead = _CURSOR if index == self.cursor and self.has_focus and at >= self.document.blocks[index].has_gap else _NO_CURSOR
        if at >= len(lines):
            self.touch(top)
            return ()
        return (*lead, *lines[at]) if lines[at] or lead is _CURSOR else ()

    def move_to_edge(self, is_end: bool) -> None:
        """Go to the beginning, or to the end and follow it."""
        if is_end:
            self.set_following(True)
            self.cursor = len(self.document) - 1
            self.settle()
            self.redraw()
            self.sync()
        else:
            self.cursor = min(0, len(self.document) - 1)
            self.go(0, 0)

    def move_cursor(self, rows: int) -> None:
        """Move the cursor by blocks, or scroll within one that is taller than the pane."""
        if not len(self.document):
            return
        if self.cursor < 0:
            self.put_cursor(self._last_seen())
            return
        top, bottom = self._span(self.cursor)
        view_top = self.scroll_offset.y
        view_bottom = view_top + self.size.height
        if (rows > 0 and top <= view_bottom < bottom) or (rows < 0 and top < view_top <= bottom):
            self.scroll_lines(rows)
        else:
            self.put_cursor(self.cursor + rows)

    def put_cursor(self, index: int) -> None:
        """Put the cursor on a block and bring it into view."""
        before = self.cursor
        self.cursor = max(0, min(len(self.document) - 1, index))
        self._reveal()
        for each in {before, self.cursor}:
            if 0 <= each < len(self.document):
                self.touch(self.document.top(each))

    def jump_to(self, mark: Mark, step: int) -> bool:
        """Put the cursor on the next (or, for a negative step, previous) block of a kind; False if there is none."""
        index = self.cursor if self.cursor >= 0 else len(self.document)
        index += step
        while 0 <= index < len(self.document):
            if mark in self.document.blocks[index].marks:
                self.put_cursor(index)
                return True
            index += step
        return False

    @property
    def current(self) -> Block | None:
        """Return the block under the cursor; without one, the last."""
        blocks = self.document.blocks
        return blocks[self.cursor if 0 <= self.cursor < len(blocks) else -1] if blocks else None

    def toggle(self, index: int) -> None:
        """Fold or unfold a block where it stands."""
        block = self.document.blocks[index]
        if block.can_fold:
            self.hold_still()
            block.turn_over()
            self.document.touch(index)
            self.go(*self._anchor)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.redraw()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the block, and fold or unfold it, unless text was selected."""
        line = event.y + self.scroll_offset.y
        if self.text_selection is None and 0 <= line < self.document.total:
            index, _ = self.document.locate(line)
            self.cursor = index
            self.toggle(index)
            self.redraw()

    def _reveal(self) -> None:
        top, bottom = self._span(self.cursor)
        height = self.size.height
        view_top = self.scroll_offset.y
        if top < view_top or bottom - top >= height:
            self.go(self.cursor, 0)
        elif bottom > view_top + height:
            self.scroll_lines(bottom - view_top - height)

    def _span(self, index: int) -> tuple[int, int]:
        height = self.document.height(index)
        top = self.document.top(index)
        return top, top + height
