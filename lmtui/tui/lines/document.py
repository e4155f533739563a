"""A long document of blocks at one width: heights guessed until seen, lines drawn on sight and forgotten; words found in it."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import ClassVar

from lmtui.tui.lines.styled_text import Line, LineSource, Place, plain

_KEPT_BLOCKS = 300
_AT_ONCE = 2000
_WIDEST = 100
_GUTTER: Line = (("  ", ""),)


class Block:
    """One part of a conversation.  `has_gap`: a blank line is before it.  `is_cut_off`: the model sees it no more.
    `is_padded`: its own ground has a blank row above and below the text.

    `seq` is the place in the session of the event that it was made from.
    """

    kind: ClassVar[str] = ""
    call_id = ""
    has_bar = False  # its lines begin with one, in the gutter

    def __init__(self) -> None:
        self.has_gap = False
        self.is_padded = False
        self.is_folded = True
        self.is_cut_off = False
        self.seq = 0

    @property
    def can_fold(self) -> bool:
        """Tell whether there is more to show or to hide."""
        return False

    def estimate(self, width: int) -> int:
        """Return about how many lines the block has, without drawing it: from length and newlines."""
        text = "" if self.can_fold and self.is_folded else self.copy_text()
        return text.count("\n") + len(text) // max(1, width) + 1

    @abstractmethod
    def body(self, width: int) -> list[Line]:
        """Return the block's lines without the blank line before it."""

    @abstractmethod
    def copy_text(self) -> str:
        """Return what is copied from the block."""

    def search_text(self) -> str:
        """Return all that can be found in the block, folded or not."""
        return self.copy_text()

    def unfold_all(self) -> None:
        """Show everything there is."""
        self.is_folded = False

    def lines(self, width: int) -> list[Line]:
        """Return the block's lines, at least one."""
        body = self.body(width)
        if self.is_cut_off:
            body = [((plain(line), "muted"),) for line in body]
        return [(), *body] if self.has_gap else body


class Document(LineSource):
    """Blocks and where they are, behind a gutter for bars.  A place is a block and a line of it.

    All changes go through here, so that a view knows from where on to look again.  `changed` is called with the first line
    from which on it does.
    """

    lead_cells = 2

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self.blocks: list[Block] = []
        self.is_padded = False
        self.changed: Callable[[int], None] = lambda _: None
        self._heights: list[int] = []
        self._total = 0
        self._tops = [0]  # the first lines of the blocks, as far as they are counted
        self._drawn: OrderedDict[Block, list[Line]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.blocks)

    def total(self) -> int:
        """Return the height of all blocks, guessed where they were not seen."""
        return self._total

    def line(self, number: int) -> Line:
        """Return a line of the block that is there."""
        index, top = self.locate(number)
        lines = self.lines(index)
        content = lines[number - top] if number - top < len(lines) else ()  # fewer than was guessed
        return content if not content or self.blocks[index].has_bar else (*_GUTTER, *content)

    def append(self, block: Block) -> None:
        """Add a block at the end."""
        block.is_padded = self.is_padded
        self.changed(self._total)
        self.blocks.append(block)
        self._heights.append(block.estimate(self.width) + block.has_gap)
        self._total += self._heights[-1]
        self.revision += 1

    def truncate(self, count: int) -> None:
        """Take the blocks from `count` on away."""
        if count >= len(self.blocks):
            return
        self._note(count)
        for block in self.blocks[count:]:
            self._drawn.pop(block, None)
        self._total -= sum(self._heights[count:])
        del self.blocks[count:], self._heights[count:], self._tops[count + 1 :]

    def touch(self, index: int) -> None:
        """Note that a block is not what it was."""
        self._drawn.pop(self.blocks[index], None)
        self.revision += 1
        self._note(index)

    def set_width(self, width: int, *, is_padded: bool | None = None) -> None:
        """Draw everything again for a pane of another width; the heights of a long document stay those guessed before.

        `is_padded`: the blocks that can have it have a blank row above and below.
        """
        self.is_padded = self.is_padded if is_padded is None else is_padded
        self.width = min(_WIDEST, max(8, width - self.lead_cells))
        self._drawn.clear()
        for block in self.blocks:
            block.is_padded = self.is_padded
        if len(self.blocks) <= _AT_ONCE:
            self._heights = [block.estimate(self.width) + block.has_gap for block in self.blocks]
        self._total, self._tops = sum(self._heights), [0]
        self._note(0)

    def lines(self, index: int) -> list[Line]:
        """Return the lines of a block; its height is exact from then on."""
        block = self.blocks[index]
        lines = self._drawn.get(block)
        if lines is None:
            lines = block.lines(self.width + self.lead_cells * block.has_bar)
            self._drawn[block] = lines
            if self._heights[index] != len(lines):
                self._total += len(lines) - self._heights[index]
                self._heights[index] = len(lines)
                del self._tops[index + 1 :]
                self._note(index)
            if len(self._drawn) > _KEPT_BLOCKS:
                self._drawn.popitem(last=False)
        return lines

    def height(self, index: int) -> int:
        """Return the exact height of a block."""
        return len(self.lines(index))

    def top(self, index: int) -> int:
        """Return the first line of a block."""
        while len(self._tops) <= min(index, len(self._heights)):
            self._count_on()
        return self._tops[index]

    def locate(self, line: int) -> Place:
        """Return the block at a line and that block's first line."""
        while self._tops[-1] <= line and len(self._tops) <= len(self._heights):
            self._count_on()
        index = bisect_right(self._tops, line) - 1
        return index, self._tops[index]

    # -- places ---------------------------------------------------------------------------------------------------------

    def place_at(self, line: int) -> Place:
        """Return the block of a line, and which line of it that is."""
        index, top = self.locate(max(0, min(line, self._total - 1)))
        return index, max(0, line) - top

    def line_of(self, place: Place) -> int:
        """Return the line of a place."""
        return self.top(min(place[0], len(self.blocks))) + place[1]

    def moved(self, place: Place, lines: int) -> Place:
        """Return the place that is exactly so many lines below or above, however wrong the guessed heights on the way were."""
        index, offset = place[0], place[1] + lines
        while offset < 0 and index > 0:
            index -= 1
            offset += self.height(index)
        while index < len(self.blocks) - 1 and offset >= self.height(index):
            offset -= self.height(index)
            index += 1
        return index, max(0, offset)

    def settle(self, place: Place | None, rows: int) -> Place:
        """Make the heights of what is about to be seen exact, from a place on or up from the end."""
        last = len(self.blocks) - 1
        index, offset = (last, 0) if place is None else (min(place[0], max(0, last)), place[1])
        if place is not None and place[0] > last:
            offset = 0
        room, at = rows + offset, index
        while room > 0 and 0 <= at <= last:
            room -= self.height(at)
            at += -1 if place is None else 1
        if place is not None and 0 <= index <= last:
            offset = min(offset, self.height(index) - 1)
        return max(0, index), offset

    def find(self, words: str) -> Iterator[Place | None]:
        """Yield a block for each time that words are in it, folded or not."""
        wanted, index = words.casefold(), 0
        while index < len(self.blocks):  # some may come or go meanwhile
            yield from ((index, nth) for nth in range(self.blocks[index].search_text().casefold().count(wanted)))
            yield None
            index += 1

    def reveal(self, place: Place, words: str) -> Place:
        """Unfold a block in which words are found, and return where."""
        index, nth = place
        block = self.blocks[index]
        rows = self._rows_with(index, words)
        if not rows and block.can_fold and block.is_folded:
            block.unfold_all()
            self.touch(index)
            rows = self._rows_with(index, words)
        return index, rows[min(nth, len(rows) - 1)] if rows else int(block.has_gap)

    def _rows_with(self, index: int, words: str) -> list[int]:
        """Return the lines of a block that words are in, each as often as they are."""
        counts = (plain(line).casefold().count(words.casefold()) for line in self.lines(index))
        return [row for row, count in enumerate(counts) for _ in range(count)]

    def _count_on(self) -> None:
        at = len(self._tops) - 1
        self._tops += accumulate(self._heights[at : at + _AT_ONCE], initial=self._tops.pop())

    def _note(self, index: int) -> None:
        self.changed(self.top(min(index, len(self.blocks))))
