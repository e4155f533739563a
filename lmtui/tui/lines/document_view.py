"""A view of a document of blocks: the reader's place in it, the cursor on a block, the search."""

from __future__ import annotations

from typing import Unpack

from textual.binding import BindingsMap
from textual.timer import Timer

from lmtui.core.sanitize import sanitize_line
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.blocks import Block, Mark
from lmtui.tui.lines.document import Document, Finder
from lmtui.tui.lines.line_view import LineScroller, VirtualLineView
from lmtui.tui.lines.styled_text import Line, StyleRole, fill, fit, restyle
from lmtui.tui.lines.table import BAR
from lmtui.tui.lines.tool_log import CallOpened
from lmtui.tui.timing import WidgetOptions, call_after

_WIDEST = 100
_GUESS_S = 0.004
_GUESS_DELAY_S = 0.3
_GUESS_PAUSE_S = 0.006


class AnchorScroller(LineScroller):
    """Keeps the reader of a document in his place.  A place is a block and a line of it; the anchor is the one at the top."""

    def __init__(self, view: DocumentView) -> None:
        super().__init__(view)
        self._view: DocumentView = view
        self.is_following = True
        self.anchor = (0, 0)
        self._seen_blocks = 0
        self._guess_timer: Timer | None = None

    @property
    def _document(self) -> Document:
        return self._view.document

    def take_width(self, width: int) -> None:
        """Draw the document at the new width; what is at the top of the pane stays there, about half a block too."""
        document = self._document
        index, offset = self.anchor
        old = document.guessed_height(index)
        document.set_width(min(_WIDEST, max(8, width - 2 * document.lead_cells)))
        if offset and index < len(document):
            self.anchor = (index, min(document.height(index) - 1, offset * document.height(index) // max(1, old)))
        self._guess_later(_GUESS_DELAY_S)

    def _guess_later(self, delay_s: float) -> None:
        if self._document.is_guessing and self._view.is_running:
            if self._guess_timer is not None:
                self._guess_timer.stop()
            self._guess_timer = call_after(self._view, delay_s, self._guess_on)

    def _guess_on(self) -> None:
        if self._document.guess(_GUESS_S):
            self._view.touch()
        self._guess_later(_GUESS_PAUSE_S)

    def settle(self) -> None:
        """Make the heights of what is about to be seen exact, from the reader's anchor or up from the end."""
        document = self._document
        if self.is_following:
            self._settle_end()
        else:
            self._settle_from_anchor()
        changed = document.take_changed()
        if changed is not None:
            self._view.strips.mark_stale(document.top(min(changed, len(document))))
        self._view.search.follow_changes()

    def restore(self) -> None:
        """Scroll to the end where it is followed, else put the anchor back in its place."""
        super().restore()
        if not self.is_following and len(self._document):
            index, offset = self.anchor
            self._view.jump(self._document.top(index) + offset)

    def note(self) -> Line:
        """Say how much came in below, where the reader is not at the end."""
        count = len(self._document)
        if count:
            self._seen_blocks = min(count, max(self._seen_blocks, self.last_seen() + 1))
        below = 0 if self.is_following else count - self._seen_blocks
        return ((f" ↓ {below} new · End ", "accent caret"),) if below > 0 else ()

    def set_following(self, is_following: bool) -> None:
        """Follow the end, or stop; what is there now counts as seen."""
        if is_following != self.is_following:
            self._seen_blocks = len(self._document)
        super().set_following(is_following)

    def shift(self, blocks: int) -> None:
        """Stay in place in another document, in which the blocks have moved."""
        self.anchor = (max(0, self.anchor[0] + blocks), self.anchor[1])
        self._seen_blocks = max(0, self._seen_blocks + blocks)
        self._guess_later(_GUESS_DELAY_S)

    def hold_still(self) -> None:
        """Stay here, whatever comes in below."""
        self.anchor = self.at_top()
        super().hold_still()

    def move(self, lines: int) -> None:
        """Scroll by exactly so many lines, however wrong the guessed heights on the way were."""
        if len(self._document):
            index, offset = self.at_top()
            self.go(*self.moved(index, offset + lines))

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the beginning, or to the end and follow it."""
        if is_end:
            self.set_following(True)
            self.settle()
            self._view.redraw()
            self._view.sync()
        else:
            self.go(0, 0)

    def bring_into_view(self, line: int) -> int:
        """Scroll so that a line is seen, and return where it is then: heights on the way may turn out otherwise."""
        document, mode = self._document, self._view.copy_mode
        mark_place = self._place(mode.mark[0]) if mode.mark is not None else (0, 0)
        index, offset = self._place(line)
        offset = max(0, min(offset, document.height(index) - 1))
        top, seen = self.at_top(), max(1, self._view.size.height - 1)
        if (index, offset) < top:
            self.go(index, offset, can_follow=False)
        elif document.top(index) + offset >= self._view.scroll_offset.y + seen:
            self.go(*self.moved(index, offset - seen + 1), can_follow=False)
        if mode.mark is not None:
            mode.mark = (document.top(mark_place[0]) + mark_place[1], mode.mark[1])
        return document.top(index) + offset

    def dragged(self) -> None:
        """Take the place that the scroll bar was moved to."""
        self.note_place()
        self.anchor = self.at_top()
        self._view.touch()

    def at_top(self) -> tuple[int, int]:
        """Return the place at the top of the pane."""
        return self._place(self._view.scroll_offset.y)

    def go(self, index: int, offset: int, *, can_follow: bool = True) -> None:
        """Put a place at the top of the pane; at the end of the document, follow it."""
        self.anchor = (index, offset)
        self._settle_from_anchor()
        top = self._document.top(self.anchor[0]) + self.anchor[1]
        is_end = top + self._view.size.height >= self._document.total()
        self.set_following(can_follow and is_end and not self._view.copy_mode.is_on)
        self.settle()
        self._view.sync()

    def moved(self, index: int, offset: int) -> tuple[int, int]:
        """Return the place that is so many lines below (or, for a negative offset, above) the beginning of a block."""
        document = self._document
        while offset < 0 and index > 0:
            index -= 1
            offset += document.height(index)
        while index < len(document) - 1 and offset >= document.height(index):
            offset -= document.height(index)
            index += 1
        return index, max(0, offset)

    def last_seen(self) -> int:
        """Return the last block in view."""
        line = min(self._view.scroll_offset.y + self._view.size.height, self._document.total()) - 1
        return self._document.locate(line)[0] if line >= 0 else 0

    def _place(self, line: int) -> tuple[int, int]:
        line = min(line, self._document.total() - 1)
        if line < 0:
            return 0, 0
        index, top = self._document.locate(line)
        return index, line - top

    def _settle_from_anchor(self) -> None:
        document = self._document
        index, offset = self.anchor
        if index >= len(document):
            index, offset = max(0, len(document) - 1), 0
        self.anchor = (index, offset)
        room = self._view.size.height + offset
        while room > 0 and index < len(document):
            room -= document.height(index)
            index += 1

    def _settle_end(self) -> None:
        room = self._view.size.height
        index = len(self._document) - 1
        while room > 0 and index >= 0:
            room -= self._document.height(index)
            index -= 1


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
        marked = (BAR, *content[1:]) if index == self.index and line >= first else content
        return fill(marked, self._view.content_width, "cursor") if index == self.index and line == first else marked

    def move(self, rows: int) -> None:
        """Move by blocks, or scroll within one that is taller than the pane."""
        view = self._view
        if not len(view.document):
            return
        if self.index < 0:
            self.put(view.scroller.last_seen())
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

    def jump_to(self, mark: Mark, step: int) -> None:
        """Go to the next (or, for a negative step, previous) block of a kind, if there is one."""
        blocks = self._view.document.blocks
        index = (self.index if self.index >= 0 else len(blocks)) + step
        while 0 <= index < len(blocks) and mark not in blocks[index].marks:
            index += step
        if 0 <= index < len(blocks):
            self.put(index)

    def toggle(self, index: int) -> None:
        """Fold or unfold a block where it is; it stays as the reader wants it."""
        view = self._view
        block = view.document.blocks[index]
        view.search.leave_open(block)
        if block.can_fold:
            view.scroller.hold_still()
            block.turn_over()
            view.document.touch(index)
            view.scroller.go(*view.scroller.anchor)

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
            view.scroller.go(self.index, 0)
        elif bottom > view_top + height:
            view.scroller.move(bottom - view_top - height)

    def _span(self, index: int) -> tuple[int, int]:
        height = self._view.document.height(index)
        top = self._view.document.top(index)
        return top, top + height


_SLICE_S = 0.006
_PAUSE_S = 0.004
_WORDS_CELLS = 20


class BlockSearch:
    """A search for words: matches marked and counted, gone to one by one, unfolded while one is there."""

    def __init__(self, view: DocumentView) -> None:
        self.finder: Finder | None = None
        self._view = view
        self._hit = (-1, 0)
        self._opened: Block | None = None
        self._is_looking = False
        self._wants_step = 0

    @property
    def is_on(self) -> bool:
        """Tell whether words are looked for."""
        return self.finder is not None

    @property
    def words(self) -> str:
        """Return the words that are looked for, empty for none."""
        return self.finder.words if self.finder is not None else ""

    def find(self, words: str) -> None:
        """Look for words (none: end the search), those that were looked for before forgotten; the reader stays where he is."""
        view = self._view
        self._fold_again()
        self.finder = Finder(view.document.blocks, words, view.scroller.at_top()[0]) if words.strip() else None
        self._hit, self._wants_step = (-1, 0), 0
        view.redraw()
        view.show_note()
        self._look()

    def go(self, step: int = 1) -> None:
        """Go to the next match, or the one before; to the first in sight or below where none was gone to yet."""
        finder, count = self.finder, len(self._view.document)
        if finder is None:
            return
        index, ordinal = self._hit
        if index < 0:
            index, ordinal = self._view.scroller.at_top()[0] - (step > 0), count
        if 0 <= index < count and 0 <= ordinal + step < len(self._rows(finder, index)) and self._hit[0] >= 0:
            self._show_hit(finder, index, ordinal + step)
            return
        found = finder.step(index, step)
        if found is None:
            self._wants_step = step
            self._view.show_note()
            return
        self._wants_step = 0
        self._show_hit(finder, found, 0 if step > 0 else -1)

    def leave_open(self, block: Block | None = None) -> None:
        """Let a block (none given: any) stay unfolded that was unfolded for a match."""
        if block is None or block is self._opened:
            self._opened = None

    def follow_changes(self) -> None:
        """Look through what is new."""
        changed = self._view.document.take_rewritten()
        if self.finder is not None and changed is not None:
            self.finder.forget_from(changed)
            self._look()

    def dress(self, line: int, content: Line) -> Line:
        """Return a line with its matches marked, the one that was gone to more than the others."""
        document = self._view.document
        if self.finder is not None and line < document.total():
            index, top = document.locate(line)
            for number, start, end in self.finder.on_row(document.lines(index), line - top):
                role: StyleRole = "match strong" if (index, number) == self._hit else "match"
                content = restyle(content, start + document.lead_cells, end + document.lead_cells, role)
        return content

    def note(self) -> Line:
        """Return what was found and what the keys do."""
        finder = self.finder
        assert finder is not None
        which = f"{self._number(finder):,} of {finder.total:,}" if self._hit[0] >= 0 else f"{finder.total:,}"
        more = "" if finder.is_done else "+"
        found: Line = (
            ((f" {which}{more}  ", "accent"),) if finder.total else ((" not found  " if finder.is_done else " … ", "warn"),)
        )
        words: Line = ((fit(sanitize_line(finder.words), _WORDS_CELLS), "strong"),)
        keys = hint_text(of_scope(Scope.FINDING))
        return (*words, *found, (keys, "muted")) if self._view.has_focus else found

    def _number(self, finder: Finder) -> int:
        """Return which of all matches was gone to."""
        index, ordinal = self._hit
        return finder.count_before(index) + min(ordinal, max(0, finder.count(index) - 1)) + 1

    def _look(self) -> None:
        if self._is_looking or self.finder is None:
            return
        is_done = self.finder.work(_SLICE_S)
        if self._wants_step and (self.finder.total or is_done):
            step, self._wants_step = self._wants_step, 0
            if self.finder.total:
                self.go(step)
        self._view.show_note()
        if not is_done and self._view.is_running:
            self._is_looking = True
            call_after(self._view, _PAUSE_S, self._look_on)

    def _look_on(self) -> None:
        self._is_looking = False
        self._look()

    def _rows(self, finder: Finder, index: int) -> list[int]:
        lines = self._view.document.lines(index)
        return [stretches[0][0] for stretches in finder.matches(lines) if stretches] or [0]

    def _show_hit(self, finder: Finder, index: int, ordinal: int) -> None:
        view, document = self._view, self._view.document
        block = document.blocks[index]
        if block is not self._opened:
            self._fold_again()
            if block.can_fold and not finder.matches(document.lines(index)):
                block.unfold_all()
                self._opened = block
                document.touch(index)
        rows = self._rows(finder, index)
        ordinal = ordinal if ordinal >= 0 else len(rows) - 1
        self._hit = (index, ordinal)
        view.cursor.index = index
        view.scroller.hold_still()
        top = document.top(index) + rows[ordinal]
        first = view.scroll_offset.y
        if not first <= top < first + view.size.height - 1:
            view.scroller.go(*view.scroller.moved(index, rows[ordinal] - view.size.height // 3), can_follow=False)
        view.redraw()
        view.show_note()

    def _fold_again(self) -> None:
        view, blocks = self._view, self._view.document.blocks
        block, self._opened = self._opened, None
        if block is not None and not block.is_folded and block in blocks:
            if view.scroller.is_following:
                view.scroller.hold_still()
            block.is_folded = True
            view.document.touch(blocks.index(block))
            view.touch(0)


class DocumentView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows a `Document`; the cursor is on a block, and words can be looked for."""

    scroller: AnchorScroller
    cursor: BlockCursor

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        self.document = Document()
        super().__init__(self.document, **options)
        self.scroller = AnchorScroller(self)
        self.cursor = BlockCursor(self)
        self.search = BlockSearch(self)
        self.overlays = (self.search, self.copy_mode)
        self.document.changed = self.touch
        self._bindings = BindingsMap.merge([BindingsMap(bindings(Scope.FINDING)), self._bindings])

    def take_width(self, width: int) -> None:
        """Draw the document at another width."""
        self.scroller.take_width(width)

    def take_document(self, document: Document) -> None:
        """Show a document whose end is what was shown until now, with what the reader unfolded there; he stays in his place."""
        shift = len(document) - len(self.document)
        if (document.width, document.is_padded) != (self.document.width, self.document.is_padded):
            document.pad(is_padded=self.document.is_padded)
            document.set_width(self.document.width)
        for index, block in enumerate(self.document.blocks):
            if not block.is_folded and 0 <= index + shift < len(document) and document.blocks[index + shift].kind == block.kind:
                document.blocks[index + shift].unfold_like(block)
                document.touch(index + shift)
        self.copy_mode.is_on = False
        self.search.leave_open()
        if self.cursor.index >= 0:
            self.cursor.index = max(0, self.cursor.index + shift)
        self.document = self.source = self.copy_mode.source = document
        document.changed = self.touch
        self.scroller.shift(shift)
        self.redraw()
        if self.size and self.is_running:
            self.scroller.settle()
            self.sync()
        self.search.find(self.search.words)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the keys of the search count while there is one."""
        if action == "finding":
            return self.search.is_on and not self.copy_mode.is_on
        return super().check_action(action, parameters)

    def action_finding(self, step: int) -> None:
        """Go to another match, or with 0 end the search."""
        if step:
            self.search.go(step)
        else:
            self.search.find("")

    def action_select(self, is_fold: bool = False) -> None:
        """Ask for the call under the cursor to be shown; fold or unfold anything else, with `is_fold` a call too."""
        block = self.cursor.current
        if block is not None and block.call_id and not is_fold:
            self.post_message(CallOpened(block.call_id))
        elif block is not None:
            self.cursor.toggle(self.document.blocks.index(block))
