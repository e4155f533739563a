"""A view of a document of blocks, with a cursor on a block."""

from __future__ import annotations

from typing import Unpack

from lmtui.tui.lines.blocks import Block
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import Line, Place, fill, slice_line
from lmtui.tui.lines.table import BAR
from lmtui.tui.lines.tool_log import CallOpened
from lmtui.tui.timing import WidgetOptions

_LONGEST = 10_000


class BlockCursor:
    """A cursor on a block of a document, -1 for none; it is drawn in the gutter."""

    def __init__(self, view: DocumentView) -> None:
        self.index = -1
        self._view = view

    @property
    def current(self) -> Block | None:
        """Return the block under the cursor; without one, the last."""
        blocks = self._view.document.blocks
        return blocks[self.index if 0 <= self.index < len(blocks) else -1] if blocks else None

    def mark(self, line: int, content: Line) -> Line:
        """Return a line with the cursor's sign where it is in its block."""
        if self.index < 0 or not self._view.has_focus:
            return content
        document = self._view.document
        index, top = document.locate(line)
        first = top + document.blocks[index].has_gap
        marked = (BAR, *slice_line(content, 1, _LONGEST)) if index == self.index and line >= first else content
        return fill(marked, self._view.content_width, "cursor") if index == self.index and line == first else marked

    def move(self, rows: int) -> None:
        """Move by blocks, or scroll within one that is taller than the pane."""
        view = self._view
        if not len(view.document):
            return
        if self.index < 0:
            self.put(view.last_seen())
            return
        top, bottom = self._span(self.index)
        view_top = view.scroll_offset.y
        view_bottom = view_top + view.size.height
        if (rows > 0 and top <= view_bottom < bottom) or (rows < 0 and top < view_top <= bottom):
            view.scroller.move(rows)
        else:
            self.put(self.index + rows)

    def page(self, pages: int) -> None:
        """Scroll by pages."""
        self._view.scroller.page(pages)

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the beginning, or to the end and follow it."""
        last = len(self._view.document) - 1
        self.index = last if is_end else min(0, last)
        self._view.scroller.to_edge(is_end=is_end)

    def put(self, index: int) -> None:
        """Go to a block and bring it into view."""
        document = self._view.document
        before, self.index = self.index, max(0, min(len(document) - 1, index))
        self._reveal()
        for each in {before, self.index}:
            if 0 <= each < len(document):
                self._view.touch(document.top(each))

    def to_turn(self, step: int) -> None:
        """Go to the beginning of the next turn (for a negative step, of the one before), if there is one."""
        blocks = self._view.document.blocks
        index = (self.index if self.index >= 0 else len(blocks)) + step
        while 0 <= index < len(blocks) and blocks[index].kind != "user":
            index += step
        if 0 <= index < len(blocks):
            self.put(index)

    def toggle(self, index: int) -> None:
        """Fold or unfold a block where it is; it stays as the reader wants it."""
        view = self._view
        block = view.document.blocks[index]
        view.document.leave_open(block)
        if block.can_fold:
            view.scroller.hold_still()
            block.turn_over()
            view.document.touch(index)
            view.scroller.go(view.scroller.place)

    def focus_changed(self) -> None:
        self._view.redraw()

    def can_click(self, line: int) -> bool:
        """Tell whether a line is of a block that folds."""
        document = self._view.document
        return document.blocks[document.locate(line)[0]].can_fold

    def click(self, line: int) -> None:
        """Go to a block, and fold or unfold it."""
        self.index, _ = self._view.document.locate(line)
        self.toggle(self.index)
        self._view.redraw()

    def _reveal(self) -> None:
        view = self._view
        top, bottom = self._span(self.index)
        height = view.size.height
        view_top = view.scroll_offset.y
        if top < view_top or bottom - top >= height:
            view.scroller.go((self.index, 0))
        elif bottom > view_top + height:
            view.scroller.move(bottom - view_top - height)

    def _span(self, index: int) -> tuple[int, int]:
        height = self._view.document.height(index)
        top = self._view.document.top(index)
        return top, top + height


class DocumentView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows a `Document`; the cursor is on a block."""

    cursor: BlockCursor

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        self.document = Document()
        super().__init__(self.document, **options)
        self.scroller.is_following = True
        self.cursor = BlockCursor(self)
        self.document.changed = self.touch

    def last_seen(self) -> int:
        """Return the last block in view."""
        return self.document.place_at(self.scroll_offset.y + self.size.height - 1)[0]

    def found(self, place: Place) -> None:
        """Let the cursor be where a match was gone to."""
        self.cursor.index = place[0]

    def take_document(self, document: Document) -> None:
        """Show a document whose end is what was shown until now, with what the reader unfolded there; he stays in his place."""
        shift = len(document) - len(self.document)
        for index, block in enumerate(self.document.blocks):
            if not block.is_folded and 0 <= index + shift < len(document) and document.blocks[index + shift].kind == block.kind:
                document.blocks[index + shift].unfold_all()
        document.set_width(self.content_width, is_padded=self.document.is_padded)
        self.copy_mode.is_on = False
        if self.cursor.index >= 0:
            self.cursor.index = max(0, self.cursor.index + shift)
        scroller, (index, offset) = self.scroller, self.scroller.place
        self.document = self.source = document
        document.changed = self.touch
        scroller.place = max(0, index + shift), offset
        scroller.seen = (scroller.seen[0] + shift, scroller.seen[1]) if scroller.seen is not None else None
        self.redraw()
        if self.size and self.is_running:
            self.sync()

    def action_select(self, is_fold: bool = False) -> None:
        """Ask for the call under the cursor to be shown; fold or unfold anything else, with `is_fold` a call too."""
        block = self.cursor.current
        if block is not None and block.call_id and not is_fold:
            self.post_message(CallOpened(block.call_id))
        elif block is not None:
            self.cursor.toggle(self.document.blocks.index(block))
