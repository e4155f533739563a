"""How tall the blocks of a long document are, summed in buckets so that finding a line stays cheap at any length."""

from __future__ import annotations

from collections.abc import Iterable

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
