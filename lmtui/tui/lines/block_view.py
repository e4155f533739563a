"""A pane over a document of blocks with a cursor on one of them: moves it, jumps with it, folds."""

from __future__ import annotations

from typing import Unpack

from textual import events
from textual.timer import Timer

from lmtui.tui.lines.blocks import Block, Mark
from lmtui.tui.lines.document import Document
from lmtui.tui.lines.line_view import LineView
from lmtui.tui.lines.styled_text import Line
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.timing import call_after

_WIDEST = 100
_GUESS_S = 0.004
_GUESS_DELAY_S = 0.3
_GUESS_PAUSE_S = 0.006
GUTTER = 1


class AnchoredView(LineView, can_focus=True, inherit_bindings=False):
    """Shows a `Document`.  A place is a block and a line of it; the anchor is the place at the top of the pane."""

    lead_cells = GUTTER

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.document = Document()
        self.is_following = True
        self._anchor = (0, 0)
        self._seen_blocks = 0
        self._guess_timer: Timer | None = None

    def line_total(self) -> int:
        """Return the height of the document."""
        return self.document.total

    def width_changed(self) -> None:
        """Draw the document at the new width; what is at the top of the pane stays there, about half a block too."""
        index, offset = self._anchor
        old = self.document.guessed_height(index)
        self.document.set_width(min(_WIDEST, max(8, self.content_width - 2 * GUTTER)))
        if offset and index < len(self.document):
            self._anchor = (index, min(self.document.height(index) - 1, offset * self.document.height(index) // max(1, old)))
        self._guess_later(_GUESS_DELAY_S)

    def _guess_later(self, delay_s: float) -> None:
        if self.document.is_guessing and self.is_running:
            if self._guess_timer is not None:
                self._guess_timer.stop()
            self._guess_timer = call_after(self, delay_s, self._guess_on)

    def _guess_on(self) -> None:
        if self.document.guess(_GUESS_S):
            self.touch()
        self._guess_later(_GUESS_PAUSE_S)

    def settle(self) -> None:
        """Make the heights of what is about to be seen exact, from the reader's anchor or up from the end."""
        if self.is_following:
            self._settle_end()
        else:
            self._settle_from_anchor()
        changed = self.document.take_changed()
        if changed is not None:
            self.mark_stale(self.document.top(min(changed, len(self.document))))

    def sync(self) -> None:
        """Bring the scroll range in line and put the anchor block back in its place."""
        super().sync()
        if not self.is_following and len(self.document):
            index, offset = self._anchor
            self.jump(self.document.top(index) + offset)
        self.note_line()

    def note_line(self) -> None:
        """Say how much came in below, where the reader is not at the end."""
        if self.copying is not None:
            super().note_line()
            return
        if len(self.document):
            self._seen_blocks = min(len(self.document), max(self._seen_blocks, self._last_seen() + 1))
        below = 0 if self.is_following else len(self.document) - self._seen_blocks
        self.show_note(((f"{below} new below", "accent"), ("  end", "muted")) if below > 0 else ())

    def set_following(self, is_following: bool) -> None:
        """Follow the end, or stop; what is there now counts as seen."""
        if is_following != self.is_following:
            self._seen_blocks = len(self.document)
        super().set_following(is_following)

    def take_document(self, document: Document, shift: int) -> None:
        """Show another document, in which the blocks of this one have moved by `shift`."""
        self.document = document
        self._anchor = (max(0, self._anchor[0] + shift), self._anchor[1])
        self._seen_blocks = max(0, self._seen_blocks + shift)
        self._guess_later(_GUESS_DELAY_S)
        self.redraw()
        if self.size and self.is_running:
            self.settle()
            self.sync()

    def hold_still(self) -> None:
        """Stay here, whatever comes in below."""
        self._anchor = self.at_top()
        super().hold_still()

    def scroll_lines(self, lines: int) -> None:
        """Scroll by exactly so many lines, however wrong the guessed heights on the way were."""
        if len(self.document):
            index, offset = self.at_top()
            self.go(*self._moved(index, offset + lines))

    def bring_into_view(self, line: int) -> int:
        """Scroll so that a line is seen, and return where it is then: heights on the way may turn out otherwise."""
        mark = self.copying.mark if self.copying is not None else None
        mark_place = self._place(mark[0]) if mark is not None else (0, 0)
        index, offset = self._place(line)
        offset = max(0, min(offset, self.document.height(index) - 1))
        top, seen = self.at_top(), max(1, self.size.height - 1)
        if (index, offset) < top:
            self.go(index, offset, can_follow=False)
        elif self.document.top(index) + offset >= self.scroll_offset.y + seen:
            self.go(*self._moved(index, offset - seen + 1), can_follow=False)
        if mark is not None and self.copying is not None:
            self.copying.mark = (self.document.top(mark_place[0]) + mark_place[1], mark[1])
        return self.document.top(index) + offset

    def scrolled_by_bar(self) -> None:
        """Take the place that the scroll bar was moved to."""
        self.note_place()
        self._anchor = self.at_top()
        self.touch()

    def at_top(self) -> tuple[int, int]:
        """Return the place at the top of the pane."""
        return self._place(self.scroll_offset.y)

    def go(self, index: int, offset: int, *, can_follow: bool = True) -> None:
        """Put a place at the top of the pane; at the end of the document, follow it."""
        self._anchor = (index, offset)
        self._settle_from_anchor()
        top = self.document.top(self._anchor[0]) + self._anchor[1]
        is_end = top + self.size.height >= self.document.total
        self.set_following(can_follow and is_end and self.copying is None)
        self.settle()
        self.sync()

    def _place(self, line: int) -> tuple[int, int]:
        line = min(line, self.document.total - 1)
        if line < 0:
            return 0, 0
        index, top = self.document.locate(line)
        return index, line - top

    def _moved(self, index: int, offset: int) -> tuple[int, int]:
        while offset < 0 and index > 0:
            index -= 1
            offset += self.document.height(index)
        while index < len(self.document) - 1 and offset >= self.document.height(index):
            offset -= self.document.height(index)
            index += 1
        return index, max(0, offset)

    def _last_seen(self) -> int:
        line = min(self.scroll_offset.y + self.size.height, self.document.total) - 1
        return self.document.locate(line)[0] if line >= 0 else 0

    def _settle_from_anchor(self) -> None:
        index, offset = self._anchor
        if index >= len(self.document):
            index, offset = max(0, len(self.document) - 1), 0
        self._anchor = (index, offset)
        room = self.size.height + offset
        while room > 0 and index < len(self.document):
            room -= self.document.height(index)
            index += 1

    def _settle_end(self) -> None:
        room = self.size.height
        index = len(self.document) - 1
        while room > 0 and index >= 0:
            room -= self.document.height(index)
            index -= 1


_CURSOR: Line = (("▎", "accent"),)
_NO_CURSOR: Line = ((" ", ""),)


class BlockView(AnchoredView, can_focus=True, inherit_bindings=False):
    """Shows a `Document`; the cursor is on a block."""

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
        """Fold or unfold a block where it is."""
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
