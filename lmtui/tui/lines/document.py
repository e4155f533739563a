"""A long document of blocks at one width: heights guessed until seen, lines drawn on sight and forgotten again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from math import inf
from time import perf_counter

from lmtui.tui.lines.blocks import Block
from lmtui.tui.lines.styled_text import Line

_BUCKET = 256


class HeightIndex:
    """Heights of blocks in lines; `locate`, `top` and `set` cost O(blocks / 256 + 256)."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        self._sums = [sum(self._heights[at : at + _BUCKET]) for at in range(0, len(self._heights), _BUCKET)]
        self.total = sum(self._sums)
        self._hit = (0, 0)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def append(self, height: int) -> None:
        """Add a block at the end."""
        if len(self._heights) % _BUCKET == 0:
            self._sums.append(0)
        self._heights.append(height)
        self._sums[-1] += height
        self.total += height

    def pop(self) -> None:
        """Take the last block away."""
        height = self._heights.pop()
        self._sums[-1] -= height
        self.total -= height
        if len(self._heights) % _BUCKET == 0:
            self._sums.pop()
        self._hit = (0, 0)

    def set(self, index: int, height: int) -> None:
        """Change the height of a block."""
        change = height - self._heights[index]
        if change:
            self._heights[index] = height
            self._sums[index // _BUCKET] += change
            self.total += change
            if index < self._hit[0]:
                self._hit = (0, 0)

    def top(self, index: int) -> int:
        """Return the first line of a block (or the total, for the block after the last)."""
        bucket = index // _BUCKET
        return sum(self._sums[:bucket]) + sum(self._heights[bucket * _BUCKET : index])

    def locate(self, line: int) -> tuple[int, int]:
        """Return the block that a line is in, and that block's first line.

        Raises:
            IndexError: there is no such line.
        """
        if not 0 <= line < self.total:
            raise IndexError(line)
        index, top = self._near(line)
        height = self._heights[index]
        while line >= top + height:
            top += height
            index += 1
            height = self._heights[index]
        self._hit = (index, top)
        return index, top

    def _near(self, line: int) -> tuple[int, int]:
        index, top = self._hit
        if index < len(self._heights) and top <= line < top + 2 * _BUCKET:
            return index, top
        top = 0
        for bucket, height in enumerate(self._sums):
            if line < top + height:
                return bucket * _BUCKET, top
            top += height
        raise IndexError(line)


_KEPT_BLOCKS = 300
_AT_ONCE = 2000
_GUESSES_A_LOOK = 64


class Document:
    """Blocks and where they are.  All changes go through here, so that a view knows from where on to look again."""

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self.blocks: list[Block] = []
        self._heights = HeightIndex()
        self._drawn: OrderedDict[Block, list[Line]] = OrderedDict()
        self._guesses: list[int] | None = None
        self._changed_from: int | None = None
        self._rewritten_from: int | None = None

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def total(self) -> int:
        """Return the height of all blocks, guessed where they were not seen."""
        return self._heights.total

    def append(self, block: Block) -> None:
        """Add a block at the end."""
        self._note(len(self.blocks))
        self._note_rewritten(len(self.blocks))
        self.blocks.append(block)
        self._heights.append(block.estimate(self.width) + block.has_gap)

    def truncate(self, count: int) -> None:
        """Take the blocks from `count` on away."""
        while len(self.blocks) > count:
            self._drawn.pop(self.blocks.pop(), None)
            self._heights.pop()
            self._note(len(self.blocks))
            self._note_rewritten(len(self.blocks))

    def touch(self, index: int) -> None:
        """Note that a block is not what it was."""
        self._drawn.pop(self.blocks[index], None)
        self._note(index)
        self._note_rewritten(index)

    def set_width(self, width: int) -> None:
        """Draw everything again at another width; the heights of a long document are guessed again by `guess`."""
        self.width = width
        self._drawn.clear()
        self._guesses = []
        if len(self.blocks) <= _AT_ONCE:
            self.guess(inf)
        self._note(0)

    @property
    def is_guessing(self) -> bool:
        """Tell whether heights are still those of another width."""
        return self._guesses is not None

    def guess(self, budget_s: float) -> bool:
        """Guess heights at the width of now for about so long; True once they took the place of the old ones."""
        guesses = self._guesses
        if guesses is None:
            return False
        del guesses[len(self.blocks) :]
        end = perf_counter() + budget_s
        while len(guesses) < len(self.blocks):
            if perf_counter() > end:
                return False
            for block in self.blocks[len(guesses) : len(guesses) + _GUESSES_A_LOOK]:
                guesses.append(block.estimate(self.width) + block.has_gap)
        for index, block in enumerate(self.blocks if self._drawn else ()):
            if block in self._drawn:
                guesses[index] = len(self._drawn[block])
        self._heights = HeightIndex(guesses)
        self._guesses = None
        self._note(0)
        return True

    def take_changed(self) -> int | None:
        """Return the first block that changed since this was last asked, None for nothing."""
        changed, self._changed_from = self._changed_from, None
        return changed

    def take_rewritten(self) -> int | None:
        """Return the first block whose text may differ since this was last asked, None for none."""
        changed, self._rewritten_from = self._rewritten_from, None
        return changed

    def lines(self, index: int) -> list[Line]:
        """Return the lines of a block; its height is exact from then on."""
        block = self.blocks[index]
        lines = self._drawn.get(block)
        if lines is None:
            lines = block.lines(self.width)
            self._drawn[block] = lines
            if self._heights[index] != len(lines):
                self._heights.set(index, len(lines))
                self._note(index)
            if len(self._drawn) > _KEPT_BLOCKS:
                self._drawn.popitem(last=False)
        return lines

    def height(self, index: int) -> int:
        """Return the exact height of a block."""
        return len(self.lines(index))

    def guessed_height(self, index: int) -> int:
        """Return the height of a block as far as it is known; 0 for one that is not there."""
        return self._heights[index] if index < len(self.blocks) else 0

    def top(self, index: int) -> int:
        """Return the first line of a block."""
        return self._heights.top(index)

    def locate(self, line: int) -> tuple[int, int]:
        """Return the block at a line and that block's first line.

        Raises:
            IndexError: there is no such line.
        """
        return self._heights.locate(line)

    def all_lines(self) -> list[Line]:
        """Return every line; for short documents and tests."""
        return [line for index in range(len(self.blocks)) for line in self.lines(index)]

    def _note(self, index: int) -> None:
        if self._changed_from is None or index < self._changed_from:
            self._changed_from = index

    def _note_rewritten(self, index: int) -> None:
        if self._rewritten_from is None or index < self._rewritten_from:
            self._rewritten_from = index
