"""Finds words in a document of blocks, folded parts included, a few milliseconds at a time.  No widget is known here.

The blocks from the reader's place on are looked at first, then those before it, so that the first match is a near one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from time import perf_counter

from lmtui.tui.lines.blocks import Block
from lmtui.tui.lines.text import Line, plain

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
        self._by_row: dict[int, list[Stretch]] = {}
        self._start = start
        self._later: list[int] = []
        self._earlier: list[int] = []
        self._later_at = start
        self._earlier_at = 0
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
                    self._look(self._later_at, self._later)
                    self._later_at += 1
                elif self._earlier_at < min(self._start, len(self._blocks)):
                    self._look(self._earlier_at, self._earlier)
                    self._earlier_at += 1
        return self.is_done

    def forget_from(self, index: int) -> None:
        """Look again at the blocks from here on: they changed, or new ones came."""
        for found in (self._later, self._earlier):
            while found and found[-1] >= index:
                self.total -= self._counts.pop(found.pop())
        self._earlier_at = min(self._earlier_at, index)
        self._later_at = min(self._later_at, max(index, self._start))

    def step(self, index: int, step: int) -> int | None:
        """Return the next block with a match after (or, for a negative step, before) one, around the end; None without any."""
        if not self._counts:
            return None
        if step > 0:
            for found in (self._earlier, self._later):
                at = bisect_left(found, index + 1)
                if at < len(found):
                    return found[at]
            return (self._earlier or self._later)[0]
        for found in (self._later, self._earlier):
            at = bisect_left(found, index)
            if at > 0:
                return found[at - 1]
        return (self._later or self._earlier)[-1]

    def count_before(self, index: int) -> int:
        """Return how many matches stand in the blocks before one."""
        return sum(self._counts[each] for found in (self._earlier, self._later) for each in found[: bisect_left(found, index)])

    def count(self, index: int) -> int:
        """Return how many matches a block has."""
        return self._counts.get(index, 0)

    def matches(self, lines: Sequence[Line]) -> list[list[Stretch]]:
        """Return where matches are shown in the lines of a block, each in one stretch or, where it was wrapped, in several."""
        if self._seen is not lines:
            self._seen, self._found = lines, self._matches(lines)
            self._by_row = {}
            for number, stretches in enumerate(self._found):
                for row, start, end in stretches:
                    self._by_row.setdefault(row, []).append((number, start, end))
        return self._found

    def on_row(self, lines: Sequence[Line], row: int) -> list[Stretch]:
        """Return the stretches of one line of a block, each with the number of its match in the place of the row."""
        _ = self.matches(lines)
        return self._by_row.get(row, [])

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

    def _look(self, index: int, found: list[int]) -> None:
        text = self._blocks[index].search_text()
        count = text.lower().count(self._first)
        if count and self._first != self._wanted:
            count = sum(1 for _ in self._pattern.finditer(text))
        if count:
            self._counts[index] = count
            self.total += count
            found.append(index)
