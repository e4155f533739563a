"""A file that is read and searched."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, Unpack

from rich.cells import cell_len

from lmtui.tui.lines.code import LONGEST_LINE, highlight, lexer_for_path, source_line
from lmtui.tui.lines.line_view import LineView, Matches
from lmtui.tui.lines.styled_text import Line, slice_line
from lmtui.tui.lines.surface import WidgetOptions


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


class FileLines(LineView, can_focus=True, inherit_bindings=False):
    """A file's text.  `show` gives it; it reads nothing itself.  Lines are counted from 1 outside, from 0 inside."""

    DEFAULT_CSS = """
    FileLines { overflow-x: auto; scrollbar-size-horizontal: 1; }
    """
    empty_text = "Choose a file in the tree to read it here."

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.text_shown = FileText("", "")
        self._note = ""
        self.lead_cells = 6
        self.line_gone_to = -1
        self._wrapping: Wrapping | None = None

    def show(self, text: FileText | str, *, size_bytes: int = 0, is_cut: bool = False, keeps_place: bool = False) -> None:
        """Show a file (or a message in its place); `is_cut`: it is larger than the text."""
        self.text_shown = text if isinstance(text, FileText) else FileText("", text)
        self.forget_matches()
        self._note = ""
        if self.text_shown.is_binary:
            self._note = f"binary file, {size_bytes:,} bytes"
        elif not self.text_shown.lines:
            self._note = "empty file"
        elif is_cut:
            self._note = f"… cut here; the file has {size_bytes:,} bytes"
        self.lead_cells = max(4, len(str(self.line_count))) + 2
        if self._wrapping is not None:
            self._wrap()
        if not keeps_place:
            self.line_gone_to = -1
            self.jump(0)
            self.scroll_aside(0)
        self.redraw()

    @property
    def is_wrapped(self) -> bool:
        """Tell whether long lines are wrapped."""
        return self._wrapping is not None

    @property
    def line_count(self) -> int:
        """Return how many lines the text has."""
        return len(self.text_shown.lines)

    @property
    def current_line(self) -> int:
        """Return the line meant, from 1: where the copy mode is, or what was gone to, while it is seen; else the first seen."""
        if self.copying is not None:
            return self.line_of(self.copying.line) + 1
        first, last = self.lines_in_view
        gone_to = self.line_gone_to + 1
        return gone_to if first <= gone_to <= last else first

    @property
    def lines_in_view(self) -> tuple[int, int]:
        """Return the first and the last line that is seen, from 1."""
        top = self.scroll_offset.y
        return self.line_of(top) + 1, self.line_of(top + max(0, self.size.height - 1)) + 1

    @property
    def lines_meant(self) -> tuple[int, int]:
        """Return the lines that are selected, in copy mode or by mouse, else those in view, from 1."""
        if self.copying is not None:
            mark = self.copying.mark[0] if self.copying.mark else self.copying.line
            first, last = sorted((mark, self.copying.line))
            return self.line_of(first) + 1, self.line_of(last) + 1
        selection = self.text_selection
        if selection is not None:
            total = self.line_total()
            first = selection.start.y if selection.start is not None else 0
            last = selection.end.y if selection.end is not None else total
            return self.line_of(first) + 1, self.line_of(last) + 1
        return self.lines_in_view

    def forget_matches(self) -> None:
        """Look for nothing any more: the text is another."""

    def marked(self, number: int, line: Line) -> Line:
        """Return a line, or a part of it, with what was found in it marked."""
        del number
        return line

    def raw_line(self, number: int) -> str:
        """Return the text of a line, counted from 1."""
        return self.text_shown.lines[number - 1] if 0 < number <= self.line_count else ""

    def line_total(self) -> int:
        """Return how many rows there are, a remark at the end included."""
        return (self._wrapping.total if self._wrapping is not None else self.line_count) + bool(self._note)

    def virtual_width(self) -> int:
        """Return about the width of the longest line."""
        longest = 0 if self._wrapping is not None else min(self.text_shown.longest, 1_000_000) + self.lead_cells + 1
        return max(self.content_width, longest)

    def line_at(self, line: int) -> Line:
        """Return a row with its number, cut to the pane."""
        if line >= self.line_total() - bool(self._note):
            return ((f" {self._note}", "muted"),)
        digits = self.lead_cells
        if self._wrapping is not None:
            number, start, end = self._wrapping.locate(line)
        else:
            number, start = line, self.scroll_offset.x
            end = start + self.content_width - digits
        head = f"{number + 1:>{digits - 1}} " if not start or self._wrapping is None else " " * digits
        if self.text_shown.is_long(number):
            part: Line = ((self.text_shown.part(number, start, end), ""),)
            return ((head, "muted"), *self.marked(number, part))
        return ((head, "muted"), *slice_line(self.marked(number, self.text_shown.line(number)), start, end))

    def copied_line(self, line: int) -> str:
        """Return what is copied from a row: all of it, also what does not fit into the pane."""
        if self._wrapping is not None or self.scroll_offset.x or line >= self.line_count:
            return super().copied_line(line)
        return " " * self.lead_cells + self.text_shown.part(line, 0, len(self.text_shown.lines[line]))

    def width_changed(self) -> None:
        """Wrap again."""
        if self._wrapping is not None:
            self._keep_line(self._wrap)

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Draw the part of the lines that is in view."""
        self.redraw()
        super().watch_scroll_x(old_value, new_value)

    def go_to_line(self, number: int, column: int = 0) -> None:
        """Put a line, counted from 1, in the middle of the pane; of one that is wrapped, the row with a character of it."""
        self.line_gone_to = max(0, min(self.line_count, number) - 1)
        self.sync()
        self.jump(self.row_of(self.line_gone_to, column) - self.size.height // 2)

    def action_scroll_aside_left(self) -> None:
        """Show what is further left."""
        self.scroll_aside(self.scroll_offset.x - _SIDE_STEP)

    def action_scroll_aside_right(self) -> None:
        """Show what is further right."""
        self.scroll_aside(self.scroll_offset.x + _SIDE_STEP)

    def action_toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        if self._wrapping is None:
            self._keep_line(self._wrap)
            self.scroll_aside(0)
        else:
            self._keep_line(lambda: self._wrap(is_wrapped=False))

    def _wrap(self, is_wrapped: bool = True) -> None:
        self._wrapping = Wrapping(self.text_shown.lines, self.content_width - self.lead_cells) if is_wrapped else None

    def _keep_line(self, change: Callable[[], None]) -> None:
        line = self.line_of(self.scroll_offset.y)
        change()
        self.redraw()
        self.sync()
        self.jump(self.row_of(line))

    def line_of(self, row: int) -> int:
        """Return the line, from 0, that a row belongs to."""
        if self._wrapping is None:
            return max(0, min(row, self.line_count - 1))
        return self._wrapping.locate(min(row, self._wrapping.total - 1))[0] if self._wrapping.total else 0

    def row_of(self, line: int, column: int = 0) -> int:
        """Return the row, from 0, that a character of a line (from 0, as it is shown) is in."""
        return line if self._wrapping is None else self._wrapping.row_of(line, column)

    def scroll_aside(self, column: int) -> None:
        """Show the lines from a column on."""
        if self.is_running:
            self.scroll_to(x=max(0, column), animate=False, immediate=True)


class FileView(FileLines, can_focus=True, inherit_bindings=False):
    """A file's lines, and where words are in them."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._matches = Matches[Match]()

    def forget_matches(self) -> None:
        """Look for nothing any more."""
        self._matches.take("", ())

    def search(self, words: str) -> list[Match]:
        """Return where words are in the file; fit for a thread, changes nothing."""
        return self.text_shown.find_all(words)

    def show_matches(self, words: str, matches: Sequence[Match]) -> None:
        """Mark what was found and go to the first match from the top of the pane on."""
        self._matches.take(words, matches)
        if matches:
            self._go_to_match(bisect_left(matches, Match(self.line_of(self.scroll_offset.y), 0)))
        self.redraw()

    @property
    def match_text(self) -> str:
        """Return which match one is at, in words; empty where nothing is looked for."""
        return self._matches.text

    def step_match(self, step: int) -> None:
        """Go to the next match, or the one before; round the end."""
        if self._matches.places:
            self._go_to_match(self._matches.at + step)
            self.redraw()

    def _go_to_match(self, number: int) -> None:
        line, raw_column = self._matches.go(number)
        column = self.text_shown.shown_column(line, raw_column)
        row, top = self.row_of(line, column), self.scroll_offset.y
        if not top <= row < top + self.size.height - 1:
            self.go_to_line(line + 1, column)
        self.line_gone_to = line
        room = self.content_width - self.lead_cells
        left = self.scroll_offset.x
        if not self.is_wrapped and not left <= column < left + room - len(self._matches.words):
            self.scroll_aside(column - room // 2 if column >= room else 0)

    def marked(self, number: int, line: Line) -> Line:
        """Return a line, or a part of it, with what was found in it marked."""
        here = self._matches.here
        return self._matches.marked(line, is_here=here is not None and here.line == number)
