"""Where each row of a diff is, without making the rows: a diff is a list of stretches, whatever its size."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate, zip_longest

from lmtui.tui.lines.code import highlight, lexer_for_path
from lmtui.tui.lines.patch import MINUS, NONE, SIGN_ROLES, DiffLine, FilePatch, Hunk, Run, TextLines, digits_of
from lmtui.tui.lines.styled_text import Line, StyleRole, fill, fit_path, fold, restyle, width_of

_LEAST_COMMON = 0.3
_LONGEST_COMPARED = 1000
_MOST_WORDS = 250
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Ranges = tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def changed_ranges(text: str, other: str) -> Ranges:
    """Return the characters of `text`, from and up to, that `other` has not; none where the two have too little in common."""
    if not text or not other or max(len(text), len(other)) > _LONGEST_COMPARED:
        return ()
    words, others = _WORD.findall(text), _WORD.findall(other)
    head = _common(words, others)
    tail = _common(words[head:][::-1], others[head:][::-1])
    inner, inner_others = words[head : len(words) - tail], others[head : len(others) - tail]
    changed = [False] * head + _changed(inner, inner_others) + [False] * tail
    kept = sum(len(word) for word, is_changed in zip(words, changed, strict=True) if not is_changed and not word.isspace())
    if kept < _LEAST_COMMON * len(text.replace(" ", "")):
        return ()
    return _ranges(words, changed)


def _changed(words: list[str], others: list[str]) -> list[bool]:
    if not others or len(words) + len(others) > _MOST_WORDS:
        return [True] * len(words)
    changed = [True] * len(words)
    for block in SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks():
        changed[block.a : block.a + block.size] = [False] * block.size
    return changed


def _ranges(words: list[str], changed: list[bool]) -> Ranges:
    """Return the stretches of changed words; blanks between two changed words belong to them."""
    found: list[tuple[int, int]] = []
    at = 0
    blank_since = -1
    for word, is_changed in zip(words, changed, strict=True):
        end = at + len(word)
        if is_changed and found and found[-1][1] in (at, blank_since):
            found[-1] = (found[-1][0], end)
        elif is_changed:
            found.append((at, end))
        blank_since = at if not is_changed and word.isspace() else -1
        at = end
    return tuple(found)


def _common(left: list[str], right: list[str]) -> int:
    size = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        size += 1
    return size


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of a diff.

    `kind` is `file` (a title), `gap` (a blank line before one), `hunk` (a heading), `fold` (lines left out), `old` or `new`
    (one column; the other side is the line's counterpart), `pair` (both sides).  `hunk` counts from 0 over the whole diff,
    -1 outside of one.
    """

    kind: str
    path: str
    text: str = ""
    old: DiffLine | None = None
    new: DiffLine | None = None
    hunk: int = -1
    can_open: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some rows that belong together: a title, a fold (`row`), or the lines of a run.

    `ends` are the lines of the screen at which the rows end, counted within the stretch; empty where each takes one.
    """

    row: DiffRow
    run: Run | None
    rows: int
    ends: tuple[int, ...] = ()
    is_split: bool = False

    @property
    def height(self) -> int:
        """Return how many lines of the screen it takes."""
        return self.ends[-1] if self.ends else self.rows

    def locate(self, line: int) -> tuple[int, int]:
        """Return which row is in a line of it, and which line of that row it is."""
        if not self.ends:
            return line, 0
        at = bisect_right(self.ends, line)
        return at, line - (self.ends[at - 1] if at else 0)

    def line_of(self, number: int) -> int:
        """Return the first line of a row."""
        return (self.ends[number - 1] if number else 0) if self.ends else number

    def row_at(self, number: int) -> DiffRow:
        """Make one row."""
        run, row = self.run, self.row
        if run is None:
            return row
        if run.is_equal:
            return DiffRow("pair", row.path, old=run.new[number], new=run.new[number], hunk=row.hunk)
        kind, at = "pair", number
        if not self.is_split:
            kind, at = ("old", number) if number < len(run.old) else ("new", number - len(run.old))
        old = run.old[at] if at < len(run.old) else None
        new = run.new[at] if at < len(run.new) else None
        return DiffRow(kind, row.path, old=old, new=new, hunk=row.hunk)

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield the raw texts with the rows that they are in."""
        if self.run is None:
            return
        yield from enumerate(self.run.old.raw())
        yield from enumerate(self.run.new.raw(), 0 if self.is_split or self.run.is_equal else len(self.run.old))


class DiffLayout:
    """The stretches of a diff at a width.

    Args:
        opened: the unchanged lines before the hunks of these numbers (-1 - n: behind file n) are shown.
        text_width: how many cells a line's text may take before it is folded.
        width: the whole width, for titles.
        heading: the words above a hunk, by its number; None or empty for none.
    """

    def __init__(
        self, files: Sequence[FilePatch], opened: frozenset[int], painter: DiffPainter, heading: Callable[[int], str] | None
    ) -> None:
        self._opened, self._is_split, self._text_width = opened, painter.is_split, painter.text_width
        self._heading = heading
        self.stretches: list[Stretch] = []
        self.starts: list[int] = []
        self.hunk_tops: list[int] = []
        self.hunk_ends: list[int] = []
        self.file_tops: list[int] = []
        self.total = 0
        for index, file in enumerate(files):
            self._add_file(index, file, is_named=len(files) > 1 or bool(file.note))

    def at(self, line: int) -> tuple[DiffRow, int]:
        """Return the row in a line of the screen, and which line of it that is."""
        place = bisect_right(self.starts, line) - 1
        stretch = self.stretches[place]
        number, part = stretch.locate(line - self.starts[place])
        return stretch.row_at(number), part

    def find(self, words: str) -> list[int]:
        """Return the lines of the screen in which rows with these words begin, letter case aside, in order."""
        wanted = words.casefold()
        found: set[int] = set()
        for start, stretch in zip(self.starts, self.stretches, strict=True):
            found |= {start + stretch.line_of(row) for row, text in stretch.texts() if wanted in text.casefold()}
        return sorted(found)

    def _add_file(self, index: int, file: FilePatch, *, is_named: bool) -> None:
        if is_named and index:
            self._add(Stretch(DiffRow("gap", file.path), None, 1))
        self.file_tops.append(self.total)
        if is_named:
            text = (file.note or f"+{file.added} {MINUS}{file.removed}").replace(f" {MINUS}0", "")
            self._add(Stretch(DiffRow("file", file.path, text), None, 1))
        for hunk in file.hunks:
            self._add_hunk(file, hunk, len(self.hunk_tops))
        key = -1 - index
        if file.after and key in self._opened:
            self._add_run(file, Run(NONE, file.after), -1)
        elif file.after:
            self._add(Stretch(DiffRow("fold", file.path, _equal_text(len(file.after)), hunk=key, can_open=True), None, 1))

    def _add_hunk(self, file: FilePatch, hunk: Hunk, number: int) -> None:
        self.hunk_tops.append(self.total)
        if hunk.before and number in self._opened:
            self._add_run(file, Run(NONE, hunk.before), -1)
        elif hunk.skipped:
            text = _equal_text(hunk.skipped) + (f"   {hunk.heading}" if hunk.heading else "")
            self._add(Stretch(DiffRow("fold", file.path, text, hunk=number, can_open=bool(hunk.before)), None, 1))
        if self._heading is not None and (heading := self._heading(number)):
            self.hunk_tops[-1] = self.total
            self._add(Stretch(DiffRow("hunk", file.path, heading, hunk=number), None, 1))
        for run in hunk.runs:
            self._add_run(file, run, number)
        self.hunk_ends.append(self.total)

    def _add_run(self, file: FilePatch, run: Run, hunk: int) -> None:
        are_beside = self._is_split or run.is_equal
        rows = max(len(run.old), len(run.new)) if are_beside else len(run.old) + len(run.new)
        ends: tuple[int, ...] = ()
        if not (run.old.fits(self._text_width) and run.new.fits(self._text_width)):
            old, new = self._heights(run.old), self._heights(run.new)
            ends = tuple(accumulate(map(max, zip_longest(old, new, fillvalue=1)) if are_beside else (*old, *new)))
        self._add(Stretch(DiffRow("", file.path, hunk=hunk), run, rows, ends, self._is_split))

    def _add(self, stretch: Stretch) -> None:
        self.stretches.append(stretch)
        self.starts.append(self.total)
        self.total += stretch.height

    def _heights(self, lines: TextLines) -> list[int]:
        width = self._text_width
        sizes = [len(raw) if raw.isascii() and raw.isprintable() else -1 for raw in lines.raw()]
        found = [1 if 0 <= size <= width else -(-size // width) if size > 0 else 0 for size in sizes]
        if lines.note and found:
            found[-1] = 0
        return [height or len(fold(((text_of(lines[at]), ""),), width)) for at, height in enumerate(found)]


def text_of(line: DiffLine) -> str:
    """Return a line's text with what is said of it."""
    return f"{line.text} {line.note}" if line.note else line.text


def _equal_text(count: int) -> str:
    return f"⋯ {count:,} unchanged line{'s' if count > 1 else ''}"


def diff_lines(files: Sequence[FilePatch], width: int) -> list[Line]:
    """Return a whole diff in one column."""
    painter = DiffPainter(width, digits_of(files), is_split=False)
    stretches = DiffLayout(files, frozenset(), painter, None).stretches
    rows = (each.row_at(number) for each in stretches for number in range(each.rows))
    return [line for row in rows for line in painter.lines(row)]


_BAR = "│"


class DiffPainter:
    """Draws rows at one width."""

    def __init__(self, width: int, digits: int, *, is_split: bool) -> None:
        self._width = width
        self._digits = digits
        self.is_split = is_split
        self._half = (width - 1) // 2
        self.text_width = max(8, (self._half if is_split else width - digits - 1) - digits - 4)

    def lines(self, row: DiffRow, heading_role: StyleRole = "strong") -> list[Line]:
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
                return [((row.text, heading_role),)]
            case "fold":
                return [((" " * (self._digits + 1), ""), (row.text, "accent" if row.can_open else "muted"))]
            case "pair" if self.is_split:
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
        for start, end in changed_ranges(line.text, other.text) if ground and other is not None else ():
            body = restyle(body, start, end, "added-word" if ground == "added" else "removed-word")
        if line.note:
            body = (*body, (text_of(line)[len(line.text) :], "muted"))
        found: list[Line] = []
        for part in fold(body, self.text_width):
            first = not found
            lead: Line = ((numbers if first else " " * len(numbers), "muted"), (f"{sign if first else ' '} ", sign_role))
            rest = width - width_of(lead)
            found.append((*lead, *fill(part, rest, ground)))
        return found
