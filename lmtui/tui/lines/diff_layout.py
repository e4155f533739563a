"""The rows of a diff, where each of them is, and how they are drawn."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import NamedTuple

from lmtui.core.sanitize import pluralize
from lmtui.tui.lines.code import highlight, lexer_for_path
from lmtui.tui.lines.patch import MINUS, SIGN_ROLES, DiffLine, FilePatch, Hunk, Lines, changed_lines, counts_text, digits_of
from lmtui.tui.lines.styled_text import CONTINUED, Line, Span, StyleRole, code_breaks, fill, fit_path, fold, restyle

_LEAST_COMMON = 0.3
_MOST_WORDS = 500
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@lru_cache(maxsize=4096)
def changed_ranges(text: str, other: str) -> tuple[tuple[int, int], ...]:
    """Return the characters of `text`, from and up to, that `other` has not; none where the two have too little in common."""
    words, others = _WORD.findall(text), _WORD.findall(other)
    if not words or not others or len(words) + len(others) > _MOST_WORDS:
        return ()
    kept = [False] * len(words)
    for block in SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks():
        kept[block.a : block.a + block.size] = [True] * block.size
    for at in range(1, len(words) - 1):  # a blank between two changed words is changed
        kept[at] &= not words[at].isspace() or kept[at - 1] or kept[at + 1]
    common = sum(len(word) for word, is_kept in zip(words, kept, strict=True) if is_kept and not word.isspace())
    if common < _LEAST_COMMON * len(text.replace(" ", "")):
        return ()
    found: list[tuple[int, int]] = []
    at = 0
    for word, is_kept in zip(words, kept, strict=True):
        if not is_kept:
            start = found.pop()[0] if found and found[-1][1] == at else at
            found.append((start, at + len(word)))
        at += len(word)
    return tuple(found)


Heading = Callable[[int], Span]


class DiffRow(NamedTuple):
    """One row of a diff: a `file` with a `gap` above it, the heading of a `hunk`, a `fold` of lines, a `line` or a `pair`.

    `other` is the counterpart of `line`; `hunk` counts from 0 over the whole diff.
    """

    kind: str
    path: str
    text: str = ""
    line: DiffLine | None = None
    other: DiffLine | None = None
    hunk: int = -1
    role: StyleRole = "strong"


class DiffLayout:
    """The rows of a diff as `painter` draws them, and the lines at which they begin; `heading` is above a hunk."""

    def __init__(self, files: Sequence[FilePatch], painter: DiffPainter, heading: Heading | None) -> None:
        self._is_split, self._text_width = painter.is_split, painter.text_width
        self._heading = heading
        self.rows: list[DiffRow] = []
        self.tops: list[int] = []
        self.hunk_tops: list[int] = []
        self.hunk_ends: list[int] = []
        self.file_tops: list[int] = []
        self.total = 0
        for index, file in enumerate(files):
            self._add_file(index, file, is_named=len(files) > 1 or bool(file.note))

    def at(self, line: int) -> tuple[DiffRow, int]:
        """Return the row in a line of the screen, and which line of it that is."""
        number = bisect_right(self.tops, line) - 1
        return self.rows[number], line - self.tops[number]

    def _add_file(self, index: int, file: FilePatch, *, is_named: bool) -> None:
        if is_named and index:
            self._add(DiffRow("gap", file.path))
        self.file_tops.append(self.total)
        if is_named:
            self._add(DiffRow("file", file.path, file.note or counts_text(*changed_lines([file]))))
        for hunk in file.hunks:
            self._add_hunk(file, hunk, len(self.hunk_tops))

    def _add_hunk(self, file: FilePatch, hunk: Hunk, number: int) -> None:
        self.hunk_tops.append(self.total)
        if hunk.skipped:
            heading = f"   {hunk.heading}" if hunk.heading else ""
            self._add(DiffRow("fold", file.path, f"⋯ {pluralize(hunk.skipped, 'unchanged line')}{heading}", hunk=number))
        text, role = self._heading(number) if self._heading is not None else ("", "")
        if text:
            self.hunk_tops[-1] = self.total
            self._add(DiffRow("hunk", file.path, text, hunk=number, role=role))
        self._add_lines(file, hunk.lines, number)
        self.hunk_ends.append(self.total)

    def _add_lines(self, file: FilePatch, lines: Lines, hunk: int) -> None:
        for old, new in _pairs(lines):
            is_pair = self._is_split or old is new
            one_below_other = (*zip_longest(old, new[: len(old)]), *zip_longest(new, old[: len(new)]))
            for line, other in zip_longest(old, new) if is_pair else one_below_other:
                height = self._height(line)
                if is_pair and other is not line:
                    height = max(height, self._height(other))
                self._add(DiffRow("pair" if is_pair else "line", file.path, "", line, other, hunk), height)

    def _add(self, row: DiffRow, height: int = 1) -> None:
        self.rows.append(row)
        self.tops.append(self.total)
        self.total += height

    def _height(self, line: DiffLine | None) -> int:
        raw, width = line.raw if line is not None else "", self._text_width
        if line is None or (raw.isascii() and raw.isprintable() and not line.note):
            return len(code_breaks(raw, width)) + 1
        return len(fold(((text_of(line), ""),), width))


def _pairs(lines: Lines) -> Iterator[tuple[Lines, Lines]]:
    """Yield lines that were, with what is there instead of them; unchanged lines are both."""
    removed: Lines = ()
    for sign, group in groupby(lines, key=lambda line: line.sign):
        run = tuple(group)
        if removed and sign != "+":
            yield removed, ()
        if sign == " ":
            yield run, run
        elif sign == "+":
            yield removed, run
        removed = run if sign == "-" else ()
    if removed:
        yield removed, ()


def text_of(line: DiffLine) -> str:
    """Return a line's text with what is said of it."""
    return f"{line.text} {line.note}" if line.note else line.text


def diff_lines(files: Sequence[FilePatch], width: int) -> list[Line]:
    """Return a whole diff in one column."""
    painter = DiffPainter(width, digits_of(files), is_split=False)
    return [line for row in DiffLayout(files, painter, None).rows for line in painter.lines(row)]


_BAR = "│"


class DiffPainter:
    """Draws rows at one width."""

    def __init__(self, width: int, digits: int, *, is_split: bool) -> None:
        self._width = width
        self._digits = digits
        self.is_split = is_split
        self._half = (width - 1) // 2
        self.text_width = max(8, (self._half if is_split else width - digits - 1) - digits - 4)

    def lines(self, row: DiffRow) -> list[Line]:
        """Return the lines of a row."""
        match row.kind:
            case "file":
                name = fit_path(row.path, max(8, self._width - len(row.text) - 3))
                roles: dict[str, StyleRole] = {"+": "good", MINUS: "bad"}
                words = [(f" {word}", roles.get(word[:1], "muted")) for word in row.text.split()]
                return [fill(((f" {name} ", "strong"), *words), self._width, "block")]
            case "gap":
                return [()]
            case "hunk":
                return [((row.text, row.role),)]
            case "fold":
                return [((" " * (self._digits + 1), ""), (row.text, "muted"))]
            case "pair" if self.is_split:
                return self._both(row)
            case _:
                return self._column(row.line, row.other, row.path)

    def _both(self, row: DiffRow) -> list[Line]:
        left = self._side(row.line, row.other, row.path, self._half, "old")
        right = self._side(row.other, row.line, row.path, self._width - 1 - self._half, "new")
        height = max(len(left), len(right))
        left += [((" " * self._half, ""),)] * (height - len(left))
        right += [()] * (height - len(right))
        return [(*old, (_BAR, "edge"), *new) for old, new in zip(left, right, strict=True)]

    def _side(self, line: DiffLine | None, other: DiffLine | None, path: str, width: int, side: str) -> list[Line]:
        if line is None:
            return []
        number = line.old if side == "old" else line.new
        return self.numbered(line, other, path, f"{number:>{self._digits}} ", width)

    def _column(self, line: DiffLine | None, other: DiffLine | None, path: str) -> list[Line]:
        assert line is not None
        numbers = f"{line.old or '':>{self._digits}} {line.new or '':>{self._digits}} "
        return self.numbered(line, other, path, numbers, self._width)

    def numbered(self, line: DiffLine, other: DiffLine | None, path: str, numbers: str, width: int) -> list[Line]:
        """Return a line behind its numbers and sign, with what differs from its counterpart marked."""
        ground, sign_role = SIGN_ROLES.get(line.sign, ("", ""))
        sign = MINUS if line.sign == "-" else line.sign
        body = highlight([line.text], lexer_for_path(path))[0]
        indentation = len(line.text) - len(line.text.lstrip())
        for start, end in changed_ranges(line.text, other.text) if ground and other is not None else ():
            body = restyle(body, max(start, indentation), end, "added-word" if ground == "added" else "removed-word")
        if line.note:
            body = (*body, (text_of(line)[len(line.text) :], "muted"))
        found: list[Line] = []
        for part in fold(body, self.text_width):
            first = not found
            head = numbers if first else f"{CONTINUED} ".rjust(len(numbers))
            lead: Line = ((head, "muted"), (f"{sign if first else ' '} ", sign_role))
            found.append(fill((*lead, *part), width, ground))
        return found
