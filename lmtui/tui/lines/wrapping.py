"""Long lines of a file broken into rows: how many each takes is counted once, what is in a row is cut out on sight."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from rich.cells import cell_len

from lmtui.tui.lines.code import LONGEST_LINE, source_line


class Wrapping:
    """The rows of some raw lines at a width in cells.  A row of wide characters has half as many of them."""

    def __init__(self, lines: Sequence[str], width: int) -> None:
        self._width = max(2, width)
        self._lines = lines
        self._ends = list(accumulate(map(self._rows_of, lines)))

    @property
    def total(self) -> int:
        """Return how many rows there are."""
        return self._ends[-1] if self._ends else 0

    def locate(self, row: int) -> tuple[int, int, int]:
        """Return the line of a row, and the characters of it, from and up to, that the row has."""
        line = bisect_right(self._ends, row)
        step = self._step(self._lines[line])
        start = (row - self.row_of(line)) * step
        return line, start, start + step

    def row_of(self, line: int, column: int = 0) -> int:
        """Return the row of a line that has a character of it, without one the first."""
        first = self._ends[line - 1] if line else 0
        return min(first + column // self._step(self._lines[line]), self._ends[line] - 1) if column else first

    def _rows_of(self, raw: str) -> int:
        size = len(raw)
        if size <= LONGEST_LINE and not (raw.isascii() and raw.isprintable()):
            size = len(source_line(raw))
        return max(1, -(-size // self._step(raw)))

    def _step(self, raw: str) -> int:
        if raw.isascii() or (len(raw) <= LONGEST_LINE and cell_len(raw) <= len(raw)):
            return self._width
        return self._width // 2
