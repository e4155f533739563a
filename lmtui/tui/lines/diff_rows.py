"""Rows of a diff drawn as lines, side by side or in one column, with the words marked that differ."""

from __future__ import annotations

from lmtui.tui.lines.code import highlight, lexer_for_path
from lmtui.tui.lines.diff_layout import DiffRow, text_of
from lmtui.tui.lines.patch import MINUS
from lmtui.tui.lines.patch_lines import DiffLine
from lmtui.tui.lines.text import Line, fill, fold, restyle, width_of
from lmtui.tui.lines.words import changed_ranges

_BAR = "│"


class DiffPainter:
    """Draws rows at one width."""

    def __init__(self, width: int, digits: int, *, is_split: bool) -> None:
        self._width = width
        self._digits = digits
        self._is_split = is_split
        self._half = (width - 1) // 2
        self.text_width = max(8, (self._half if is_split else width - digits - 1) - digits - 4)

    def lines(self, row: DiffRow, heading_role: str = "strong") -> list[Line]:
        """Return the lines of a row."""
        match row.kind:
            case "file":
                return fold(((row.text, "strong"),), self._width)
            case "hunk":
                return [((row.text, heading_role),)]
            case "fold":
                return [((" " * (self._digits + 1), ""), (row.text, "accent" if row.can_open else "muted"))]
            case "pair" if self._is_split:
                return self._both(row)
            case "new":
                return self._column(row.new, row.old, row.path)
            case _:
                return self._column(row.old, row.new, row.path)

    def _both(self, row: DiffRow) -> list[Line]:
        left = self._side(row.old, row.new, row.path, self._half, "old")
        right = self._side(row.new, row.old, row.path, self._width - 1 - self._half, "new")
        height = max(len(left), len(right))
        left += [((" " * self._half, ""),)] * (height - len(left))
        right += [()] * (height - len(right))
        return [(*old, (_BAR, "muted"), *new) for old, new in zip(left, right, strict=True)]

    def _side(self, line: DiffLine | None, other: DiffLine | None, path: str, width: int, side: str) -> list[Line]:
        if line is None:
            return []
        number = line.old if side == "old" else line.new
        return self._numbered(line, other, path, f"{number:>{self._digits}} ", width)

    def _column(self, line: DiffLine | None, other: DiffLine | None, path: str) -> list[Line]:
        assert line is not None
        numbers = f"{line.old or '':>{self._digits}} {line.new or '':>{self._digits}} "
        return self._numbered(line, other, path, numbers, self._width)

    def _numbered(self, line: DiffLine, other: DiffLine | None, path: str, numbers: str, width: int) -> list[Line]:
        ground, sign_role = {"+": ("added", "good"), "-": ("removed", "bad")}.get(line.sign, ("", ""))
        sign = MINUS if line.sign == "-" else line.sign
        body = highlight([line.text], lexer_for_path(path))[0]
        for start, end in changed_ranges(line.text, other.text) if ground and other is not None else ():
            body = restyle(body, start, end, f"{ground}-word")
        if line.note:
            body = (*body, (text_of(line)[len(line.text) :], "muted"))
        found: list[Line] = []
        for part in fold(body, self.text_width):
            first = not found
            lead: Line = ((numbers if first else " " * len(numbers), "muted"), (f"{sign if first else ' '} ", sign_role))
            rest = width - width_of(lead)
            found.append((*lead, *fill(part, rest, ground)))
        return found
