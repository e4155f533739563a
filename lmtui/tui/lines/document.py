"""A long document of blocks at one width: heights guessed until seen, lines drawn on sight and forgotten; words found in it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import inf
from time import perf_counter

from lmtui.tui.lines.blocks import Block
from lmtui.tui.lines.styled_text import Line, LineSource, plain

_KEPT_BLOCKS = 300
_AT_ONCE = 2000
_GUESSES_A_LOOK = 64


_GUTTER: Line = ((" ", ""),)


class Document(LineSource):
    """Blocks and where they are, behind a gutter of one cell.

    All changes go through here, so that a view knows from where on to look again.  `changed` is called with the first line
    of a block that turned out to be shorter than was guessed.
    """

    lead_cells = 1

    def __init__(self, width: int = 80) -> None:
        self.width = width
        self.blocks: list[Block] = []
        self.is_padded = False
        self.changed: Callable[[int], None] = lambda _: None
        self._heights: list[int] = []
        self._total = 0
        self._tops = [0]  # the first lines of the blocks, as far as they are counted
        self._drawn: OrderedDict[Block, list[Line]] = OrderedDict()
        self._guesses: list[int] | None = None
        self._changed_from: int | None = None
        self._rewritten_from: int | None = None

    def __len__(self) -> int:
        return len(self.blocks)

    def total(self) -> int:
        """Return the height of all blocks, guessed where they were not seen."""
        return self._total

    def line(self, number: int) -> Line:
        """Return a line of the block that is there."""
        index, top = self.locate(number)
        lines = self.lines(index)
        if number - top >= len(lines):
            self.changed(top)
            return ()
        content = lines[number - top]
        return (*_GUTTER, *content) if content else ()

    def append(self, block: Block) -> None:
        """Add a block at the end."""
        self._note_rewritten(len(self.blocks))
        block.is_padded = self.is_padded
        self.blocks.append(block)
        self._heights.append(block.estimate(self.width) + block.has_gap)
        self._total += self._heights[-1]

    def truncate(self, count: int) -> None:
        """Take the blocks from `count` on away."""
        while len(self.blocks) > count:
            self._drawn.pop(self.blocks.pop(), None)
            self._total -= self._heights.pop()
            self._note_rewritten(len(self.blocks))
        del self._tops[len(self.blocks) + 1 :]

    def touch(self, index: int) -> None:
        """Note that a block is not what it was."""
        self._drawn.pop(self.blocks[index], None)
        self._note_rewritten(index)

    def pad(self, *, is_padded: bool) -> None:
        """Give the blocks that can have it a blank row above and below, or take it away; `set_width` draws it."""
        if is_padded != self.is_padded:
            self.is_padded = is_padded
            for block in self.blocks:
                block.is_padded = is_padded

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
        self._heights, self._total, self._tops, self._guesses = guesses, sum(guesses), [0], None
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

    def guessed_height(self, index: int) -> int:
        """Return the height of a block as far as it is known; 0 for one that is not there."""
        return self._heights[index] if index < len(self.blocks) else 0

    def top(self, index: int) -> int:
        """Return the first line of a block."""
        while len(self._tops) <= min(index, len(self._heights)):
            self._count_on()
        return self._tops[index]

    def locate(self, line: int) -> tuple[int, int]:
        """Return the block at a line and that block's first line."""
        while self._tops[-1] <= line and len(self._tops) <= len(self._heights):
            self._count_on()
        index = bisect_right(self._tops, line) - 1
        return index, self._tops[index]

    def _count_on(self) -> None:
        at = len(self._tops) - 1
        self._tops += accumulate(self._heights[at : at + _AT_ONCE], initial=self._tops.pop())

    def _note(self, index: int) -> None:
        self._changed_from = index if self._changed_from is None else min(index, self._changed_from)

    def _note_rewritten(self, index: int) -> None:
        self._note(index)
        self._rewritten_from = index if self._rewritten_from is None else min(index, self._rewritten_from)


_BLOCKS_A_LOOK = 16
_GAP = r"[\s│▌]+"

Stretch = tuple[int, int, int]


class Finder:
    """Matches of some words, upper and lower case alike, in blocks that may still change."""

    def __init__(self, blocks: Sequence[Block], words: str, start: int = 0) -> None:
        self.words = words
        self._blocks = blocks
        self._wanted = words.lower()
        parts = words.split()
        self._first = parts[0].lower() if len(parts) > 1 else self._wanted
        self._pattern = re.compile(_GAP.join(map(re.escape, parts)) if len(parts) > 1 else re.escape(words), re.IGNORECASE)
        self._seen: Sequence[Line] = ()
        self._found: list[list[Stretch]] = []
        self._start = start
        self._with_match: list[int] = []
        self._later_at, self._earlier_at = start, 0
        self._counts: dict[int, int] = {}
        self.total = 0

    @property
    def is_done(self) -> bool:
        """Tell whether every block was looked at."""
        return self._later_at >= len(self._blocks) and self._earlier_at >= min(self._start, len(self._blocks))

    def work(self, budget_s: float) -> bool:
        """Look at blocks for about so long; True when all were looked at."""
        end = perf_counter() + budget_s
        while not self.is_done and perf_counter() < end:
            for _ in range(_BLOCKS_A_LOOK):
                if self._later_at < len(self._blocks):
                    self._look(self._later_at)
                    self._later_at += 1
                elif not self.is_done:
                    self._look(self._earlier_at)
                    self._earlier_at += 1
        return self.is_done

    def forget_from(self, index: int) -> None:
        """Look again at the blocks from here on: they changed, or new ones came."""
        while self._with_match and self._with_match[-1] >= index:
            self.total -= self._counts.pop(self._with_match.pop())
        self._earlier_at = min(self._earlier_at, index)
        self._later_at = min(self._later_at, max(index, self._start))

    def step(self, index: int, step: int) -> int | None:
        """Return the next block with a match after (or, for a negative step, before) one, around the end; None without any."""
        found = self._with_match
        at = bisect_left(found, index + 1) if step > 0 else bisect_left(found, index) - 1
        return found[at % len(found)] if found else None

    def count_before(self, index: int) -> int:
        """Return how many matches are in the blocks before one."""
        return sum(self._counts[each] for each in self._with_match[: bisect_left(self._with_match, index)])

    def count(self, index: int) -> int:
        """Return how many matches a block has."""
        return self._counts.get(index, 0)

    def matches(self, lines: Sequence[Line]) -> list[list[Stretch]]:
        """Return where matches are shown in the lines of a block, each in one stretch or, where it was wrapped, in several."""
        if self._seen is not lines:
            self._seen, self._found = lines, self._matches(lines)
        return self._found

    def on_row(self, lines: Sequence[Line], row: int) -> list[Stretch]:
        found = enumerate(self.matches(lines))
        return [(number, start, end) for number, stretches in found for at, start, end in stretches if at == row]

    def _matches(self, lines: Sequence[Line]) -> list[list[Stretch]]:
        texts = [plain(line) for line in lines]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        found: list[list[Stretch]] = []
        for match in self._pattern.finditer("\n".join(texts)):
            stretches: list[Stretch] = []
            row = bisect_right(starts, match.start()) - 1
            while starts[row] < match.end():
                start, end = max(0, match.start() - starts[row]), min(len(texts[row]), match.end() - starts[row])
                if end > start:
                    stretches.append((row, start, end))
                row += 1
            found.append(stretches)
        return found

    def _look(self, index: int) -> None:
        text = self._blocks[index].search_text()
        count = text.lower().count(self._first)
        if count and self._first != self._wanted:
            count = sum(1 for _ in self._pattern.finditer(text))
        if count:
            self._counts[index] = count
            self.total += count
            insort(self._with_match, index)
