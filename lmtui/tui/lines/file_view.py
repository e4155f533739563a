"""A file that is read and searched."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, Unpack

from rich.cells import cell_len

from lmtui.tui.lines.code import LONGEST_LINE, highlight, lexer_for_path, source_line
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.selection import Matches
from lmtui.tui.lines.styled_text import Line, LineSource, slice_line
from lmtui.tui.timing import WidgetOptions


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


MAX_MATCHES = 100_000
_CHUNK_LINES = 128
_KEPT_CHUNKS = 64
_SNIFFED_BYTES = 8192


class Match(NamedTuple):
    """Where something was found: a line and a character of it, both from 0."""

    line: int
    column: int


class FileText:
    """The text of one file.  Nothing is kept per line but the text itself and the chunks seen last.

    Making one of ten megabytes takes a tenth of a second: do it in a thread.
    """

    def __init__(self, path: str, data: bytes | str) -> None:
        self.is_binary = isinstance(data, bytes) and b"\0" in data[:_SNIFFED_BYTES]
        text = "" if self.is_binary else data if isinstance(data, str) else data.decode("utf-8", "replace")
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self.longest = max(map(_about_cells, self.lines), default=0)
        self._lexer = lexer_for_path(path)
        self._chunks: dict[int, list[Line]] = {}

    def is_long(self, number: int) -> bool:
        """Tell whether a line is too long to be treated as a whole."""
        return len(self.lines[number]) > LONGEST_LINE

    def part(self, number: int, start: int, end: int) -> str:
        """Return a part of a line, clean, without looking at the rest of it."""
        return source_line(self.lines[number][start:end])

    def line(self, number: int) -> Line:
        """Return a line, clean and highlighted."""
        chunk, at = divmod(number, _CHUNK_LINES)
        found = self._chunks.get(chunk)
        if found is None:
            if len(self._chunks) >= _KEPT_CHUNKS:
                self._chunks.pop(next(iter(self._chunks)))
            raw = self.lines[chunk * _CHUNK_LINES : (chunk + 1) * _CHUNK_LINES]
            found = highlight([source_line(each[: LONGEST_LINE + 1]) for each in raw], self._lexer)
            self._chunks[chunk] = found
        return found[at]

    def shown_column(self, number: int, column: int) -> int:
        """Return where a character of a raw line is in what is shown of it."""
        return column if self.is_long(number) else len(source_line(self.lines[number][:column]))

    def find_all(self, words: str) -> list[Match]:
        """Return where a text is, letter case aside, at most `MAX_MATCHES` places; fit for a thread."""
        wanted = words.casefold()
        found: list[Match] = []
        for number, line in enumerate(self.lines if wanted else ()):
            folded = line.casefold()
            at = folded.find(wanted)
            while at >= 0 and len(found) < MAX_MATCHES:
                found.append(Match(number, at))
                at = folded.find(wanted, at + len(wanted))
        return found


def _about_cells(raw: str) -> int:
    """Return how wide a raw line is at most, as it is shown; hidden characters, which have long names, aside."""
    return (len(raw) if raw.isascii() else max(len(raw), cell_len(raw))) + 3 * raw.count("\t")


_SIDE_STEP = 16
_MOST_CELLS = 1_000_000


class FileLines(LineSource):
    """A file's text as rows, each behind its number, from column `left` on.  Lines count from 0, in `raw_line` from 1."""

    def __init__(self) -> None:
        self.text_shown = FileText("", "")
        self.lead_cells = 6
        self.left = 0
        self.matches = Matches[Match]()
        self._note = ""
        self._wrapping: Wrapping | None = None

    def show(self, text: FileText | str, *, size_bytes: int, is_cut: bool) -> None:
        """Show a file (or a message in its place), and look for nothing any more; `is_cut`: it is larger than the text."""
        self.text_shown = text if isinstance(text, FileText) else FileText("", text)
        self.matches.take("", ())
        self._note = ""
        if self.text_shown.is_binary:
            self._note = f"binary file, {size_bytes:,} bytes"
        elif not self.text_shown.lines:
            self._note = "empty file"
        elif is_cut:
            self._note = f"… cut here; the file has {size_bytes:,} bytes"
        self.lead_cells = max(4, len(str(self.line_count))) + 2
        self.wrap(is_wrapped=self.is_wrapped)

    @property
    def is_wrapped(self) -> bool:
        """Tell whether long lines are wrapped."""
        return self._wrapping is not None

    def wrap(self, *, is_wrapped: bool) -> None:
        """Wrap long lines at the width, or cut them."""
        self._wrapping = Wrapping(self.text_shown.lines, self.width - self.lead_cells) if is_wrapped else None

    def set_width(self, width: int) -> None:
        """Wrap again."""
        super().set_width(width)
        self.wrap(is_wrapped=self.is_wrapped)

    @property
    def line_count(self) -> int:
        """Return how many lines the text has."""
        return len(self.text_shown.lines)

    def raw_line(self, number: int) -> str:
        """Return the text of a line, counted from 1."""
        return self.text_shown.lines[number - 1] if 0 < number <= self.line_count else ""

    def total(self) -> int:
        """Return how many rows there are, a remark at the end included."""
        return (self._wrapping.total if self._wrapping is not None else self.line_count) + bool(self._note)

    def scroll_width(self) -> int:
        """Return about the width of the longest line."""
        return 0 if self.is_wrapped else min(self.text_shown.longest, _MOST_CELLS) + self.lead_cells + 1

    def line(self, number: int) -> Line:
        """Return a row with its number, cut to the pane."""
        if number >= self.total() - bool(self._note):
            return ((f" {self._note}", "muted"),)
        digits = self.lead_cells
        if self._wrapping is not None:
            line, start, end = self._wrapping.locate(number)
        else:
            line, start = number, self.left
            end = start + self.width - digits
        head = f"{line + 1:>{digits - 1}} " if not start or self._wrapping is None else " " * digits
        here = self.matches.here
        is_here = here is not None and here.line == line
        if self.text_shown.is_long(line):
            part: Line = ((self.text_shown.part(line, start, end), ""),)
            return ((head, "muted"), *self.matches.marked(part, is_here=is_here))
        return ((head, "muted"), *slice_line(self.matches.marked(self.text_shown.line(line), is_here=is_here), start, end))

    def text(self, number: int) -> str:
        """Return what is copied from a row: all of it, also what does not fit into the pane."""
        if self._wrapping is not None or self.left or number >= self.line_count:
            return super().text(number)
        return " " * self.lead_cells + self.text_shown.part(number, 0, len(self.text_shown.lines[number]))

    def line_of(self, row: int) -> int:
        """Return the line, from 0, that a row belongs to."""
        if self._wrapping is None:
            return max(0, min(row, self.line_count - 1))
        return self._wrapping.locate(min(row, self._wrapping.total - 1))[0] if self._wrapping.total else 0

    def row_of(self, line: int, column: int = 0) -> int:
        """Return the row, from 0, that a character of a line (from 0, as it is shown) is in."""
        return line if self._wrapping is None else self._wrapping.row_of(line, column)


class FileView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows a file's lines and where words are in them.  `show` gives the text; it reads nothing itself."""

    DEFAULT_CSS = """
    FileView { overflow-x: auto; scrollbar-size-horizontal: 1; }
    """
    empty_text = "Choose a file in the tree to read it here."
    source: FileLines

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(FileLines(), **options)
        self._line_gone_to = -1

    def show(self, text: FileText | str, *, size_bytes: int = 0, is_cut: bool = False, keeps_place: bool = False) -> None:
        """Show a file (or a message in its place); `is_cut`: it is larger than the text."""
        self.source.show(text, size_bytes=size_bytes, is_cut=is_cut)
        if not keeps_place:
            self._line_gone_to = -1
            self.jump(0)
            self._scroll_aside(0)
        self.redraw()

    @property
    def current_line(self) -> int:
        """Return the line meant, from 1: where the copy mode is, or what was gone to, while it is seen; else the first seen."""
        if self.copy_mode.is_on:
            return self.source.line_of(self.copy_mode.line) + 1
        first, last = self.lines_in_view
        return self._line_gone_to + 1 if first <= self._line_gone_to + 1 <= last else first

    @property
    def lines_in_view(self) -> tuple[int, int]:
        """Return the first and the last line that is seen, from 1."""
        top = self.scroll_offset.y
        return self.source.line_of(top) + 1, self.source.line_of(top + max(0, self.size.height - 1)) + 1

    @property
    def lines_meant(self) -> tuple[int, int]:
        """Return the lines that are selected, in copy mode or by mouse, else those in view, from 1."""
        selection = self.text_selection
        if self.copy_mode.is_on:
            first, last = self.copy_mode.lines
        elif selection is not None:
            first = selection.start.y if selection.start is not None else 0
            last = selection.end.y if selection.end is not None else self.source.total()
        else:
            return self.lines_in_view
        return self.source.line_of(first) + 1, self.source.line_of(last) + 1

    def take_width(self, width: int) -> None:
        """Draw for another width, with the same line at the top."""
        self.keep_line(lambda: self.source.set_width(width))

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Draw the part of the lines that is in view."""
        self.source.left = self.scroll_offset.x
        self.redraw()
        super().watch_scroll_x(old_value, new_value)

    def go_to_line(self, number: int, column: int = 0) -> None:
        """Put a line, counted from 1, in the middle of the pane; of one that is wrapped, the row with a character of it."""
        self._line_gone_to = max(0, min(self.source.line_count, number) - 1)
        self.sync()
        self.jump(self.source.row_of(self._line_gone_to, column) - self.size.height // 2)

    def action_scroll_aside(self, step: str) -> None:
        """Show what is further left or right."""
        self._scroll_aside(self.scroll_offset.x + (_SIDE_STEP if step == "right" else -_SIDE_STEP))

    def action_toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        is_wrapped = not self.source.is_wrapped
        self.keep_line(lambda: self.source.wrap(is_wrapped=is_wrapped))
        if is_wrapped:
            self._scroll_aside(0)

    def keep_line(self, change: Callable[[], None]) -> None:
        """Change the rows; the line at the top stays there."""
        line = self.source.line_of(self.scroll_offset.y)
        change()
        self.redraw()
        self.sync()
        self.jump(self.source.row_of(line))

    def show_matches(self, words: str, matches: Sequence[Match]) -> None:
        """Mark what was found and go to the first match from the top of the pane on."""
        self.source.matches.take(words, matches)
        if matches:
            self._go_to_match(bisect_left(matches, Match(self.source.line_of(self.scroll_offset.y), 0)))
        self.redraw()

    def step_match(self, step: int) -> None:
        """Go to the next match, or the one before; round the end."""
        if self.source.matches.places:
            self._go_to_match(self.source.matches.at + step)
            self.redraw()

    def _go_to_match(self, number: int) -> None:
        source = self.source
        line, raw_column = source.matches.go(number)
        column = source.text_shown.shown_column(line, raw_column)
        row, top = source.row_of(line, column), self.scroll_offset.y
        if not top <= row < top + self.size.height - 1:
            self.go_to_line(line + 1, column)
        self._line_gone_to = line
        room = self.content_width - source.lead_cells
        left = self.scroll_offset.x
        if not source.is_wrapped and not left <= column < left + room - len(source.matches.words):
            self._scroll_aside(column - room // 2 if column >= room else 0)

    def _scroll_aside(self, column: int) -> None:
        if self.is_running:
            self.scroll_to(x=max(0, column), animate=False, immediate=True)
