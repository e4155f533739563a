"""Patches laid out as rows, side by side or one column, and what of a changed line is really different."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from lmtui.tui.lines.code import highlight, lexer_for_path
from lmtui.tui.lines.patch import MINUS, DiffLine, FilePatch, Hunk
from lmtui.tui.lines.text import Line, fill, fold, restyle, width_of

_LEAST_COMMON = 0.3
_LONGEST_COMPARED = 1000
_BAR = "│"


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of a diff.

    `kind` is `file` (a title), `fold` (equal lines left out), `old` or `new` (one column; the other side is the line's
    counterpart), `pair` (both sides).  `hunk` counts from 0 over the whole diff, -1 outside of one.
    """

    kind: str
    path: str
    text: str = ""
    old: DiffLine | None = None
    new: DiffLine | None = None
    hunk: int = -1
    can_open: bool = False


def diff_rows(files: Sequence[FilePatch], opened: frozenset[int], *, is_split: bool) -> list[DiffRow]:
    """Return the rows of a diff; the equal lines before the hunks in `opened` (-1 - n: behind file n) are shown too."""
    rows: list[DiffRow] = []
    number = 0
    for index, file in enumerate(files):
        if len(files) > 1 or file.note:
            counts = file.note or f"+{file.added} {MINUS}{file.removed}"
            rows.append(DiffRow("file", file.path, f"{file.path}  {counts}"))
        for hunk in file.hunks:
            rows += _before(file, hunk, number, opened, is_split)
            rows += _layout(file.path, hunk.lines, number, is_split)
            number += 1
        key = -1 - index
        if file.after and key in opened:
            rows += _layout(file.path, file.after, -1, is_split)
        elif file.after:
            rows.append(DiffRow("fold", file.path, _equal(len(file.after)), hunk=key, can_open=True))
    return rows


def _before(file: FilePatch, hunk: Hunk, number: int, opened: frozenset[int], is_split: bool) -> Iterable[DiffRow]:
    if hunk.before and number in opened:
        return _layout(file.path, hunk.before, number, is_split)
    if not hunk.skipped:
        return ()
    heading = f"   {hunk.heading}" if hunk.heading else ""
    return (DiffRow("fold", file.path, _equal(hunk.skipped) + heading, hunk=number, can_open=bool(hunk.before)),)


def _equal(count: int) -> str:
    return f"⋯ {count} equal line{'s' if count > 1 else ''}"


def _layout(path: str, lines: Sequence[DiffLine], hunk: int, is_split: bool) -> Iterator[DiffRow]:
    for old_run, new_run in _runs(lines):
        pairs = list(zip_longest(old_run, new_run))
        if is_split or (old_run and old_run[0].sign == " "):
            yield from (DiffRow("pair", path, old=old, new=new, hunk=hunk) for old, new in pairs)
            continue
        yield from (DiffRow("old", path, old=old, new=new, hunk=hunk) for old, new in pairs if old is not None)
        yield from (DiffRow("new", path, old=old, new=new, hunk=hunk) for old, new in pairs if new is not None)


def _runs(lines: Sequence[DiffLine]) -> Iterator[tuple[list[DiffLine], list[DiffLine]]]:
    old: list[DiffLine] = []
    new: list[DiffLine] = []
    for line in lines:
        if (line.sign == " ") or (line.sign == "-" and new):
            if old or new:
                yield old, new
            old, new = [], []
        if line.sign == " ":
            yield [line], [line]
        else:
            (new if line.sign == "+" else old).append(line)
    if old or new:
        yield old, new


def changed_range(text: str, other: str) -> tuple[int, int] | None:
    """Return the characters of `text` that `other` has not, None where the two have too little in common to tell."""
    size = min(len(text), len(other))
    if not size or max(len(text), len(other)) > _LONGEST_COMPARED:
        return None
    start = 0
    while start < size and text[start] == other[start]:
        start += 1
    end = 0
    while end < size - start and text[-1 - end] == other[-1 - end]:
        end += 1
    common = len(text[:start].strip()) + len(text[len(text) - end :].strip())
    if common < _LEAST_COMMON * len(text.strip()) or start + end >= len(text):
        return None
    return start, len(text) - end


class DiffPainter:
    """Draws rows at one width."""

    def __init__(self, width: int, digits: int, *, is_split: bool) -> None:
        self._width = width
        self._digits = digits
        self._is_split = is_split
        self._half = (width - 1) // 2
        self.text_width = max(8, (self._half if is_split else width - digits - 1) - digits - 4)

    def height(self, row: DiffRow) -> int:
        """Return how many lines a row takes."""
        if row.kind == "file":
            return len(fold(((row.text, ""),), self._width))
        sides = {"old": (row.old,), "new": (row.new,), "pair": (row.old, row.new)}.get(row.kind, ())
        return max((self._text_height(line.text) for line in sides if line is not None), default=1)

    def lines(self, row: DiffRow) -> list[Line]:
        """Return the lines of a row."""
        match row.kind:
            case "file":
                return fold(((row.text, "strong"),), self._width)
            case "fold":
                return [((" " * (self._digits + 1), ""), (row.text, "accent" if row.can_open else "muted"))]
            case "pair" if self._is_split:
                return self._both(row)
            case "new":
                return self._column(row.new, row.old, row.path)
            case _:
                return self._column(row.old, row.new, row.path)

    def _text_height(self, text: str) -> int:
        if len(text) * 2 <= self.text_width or (text.isascii() and len(text) <= self.text_width):
            return 1
        return len(fold(((text, ""),), self.text_width))

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
        different = changed_range(line.text, other.text) if ground and other is not None else None
        if different is not None:
            body = restyle(body, *different, f"{ground}-word")
        found: list[Line] = []
        for part in fold(body, self.text_width):
            first = not found
            lead: Line = ((numbers if first else " " * len(numbers), "muted"), (f"{sign if first else ' '} ", sign_role))
            rest = width - width_of(lead)
            found.append((*lead, *fill(part, rest, ground)))
        return found
