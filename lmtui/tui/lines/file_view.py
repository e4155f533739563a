"""Shows a file, read-only: line numbers, colours by the chunk in view, long lines cut to the pane or wrapped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Unpack

from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.file_text import FileText, Match
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, plain, restyle, slice_line
from lmtui.tui.lines.wrapping import Wrapping

_SIDE_STEP = 16
_MAX_MARKED = 64


class FileView(LineView, can_focus=True, inherit_bindings=False):
    """A file's text.  `show` gives it; it reads nothing itself.  Lines are counted from 1 outside, from 0 inside."""

    DEFAULT_CSS = """
    FileView { overflow-x: auto; scrollbar-size-horizontal: 1; }
    """
    empty_text = "Choose a file in the tree to read it here."

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._text = FileText("", "")
        self._note = ""
        self._words = ""
        self._matches: Sequence[Match] = ()
        self._match = -1
        self._line_gone_to = -1
        self._wrapping: Wrapping | None = None

    def show(self, text: FileText | str, *, size_bytes: int = 0, is_cut: bool = False, keeps_place: bool = False) -> None:
        """Show a file (or a message in its place); `is_cut`: it is larger than the text."""
        self._text = text if isinstance(text, FileText) else FileText("", text)
        self._words, self._matches, self._match = "", (), -1
        self._note = ""
        if self._text.is_binary:
            self._note = f"binary file, {size_bytes:,} bytes"
        elif not self._text.lines:
            self._note = "empty file"
        elif is_cut:
            self._note = f"… cut here; the file has {size_bytes:,} bytes"
        self.lead_cells = self._number_width()
        if self._wrapping is not None:
            self._wrap()
        if not keeps_place:
            self._line_gone_to = -1
            self.jump(0)
            self._scroll_aside(0)
        self.redraw()

    @property
    def is_wrapped(self) -> bool:
        """Tell whether long lines are wrapped."""
        return self._wrapping is not None

    @property
    def line_count(self) -> int:
        """Return how many lines the text has."""
        return len(self._text.lines)

    @property
    def current_line(self) -> int:
        """Return the line meant, from 1: where the copy mode is, or what was gone to, while it is seen; else the first seen."""
        if self.copying is not None:
            return self._line_of(self.copying.line) + 1
        first, last = self.lines_in_view
        gone_to = self._line_gone_to + 1
        return gone_to if first <= gone_to <= last else first

    @property
    def lines_in_view(self) -> tuple[int, int]:
        """Return the first and the last line that is seen, from 1."""
        top = self.scroll_offset.y
        return self._line_of(top) + 1, self._line_of(top + max(0, self.size.height - 1)) + 1

    @property
    def lines_meant(self) -> tuple[int, int]:
        """Return the lines that are selected, in copy mode or by mouse, else those in view, from 1."""
        if self.copying is not None:
            mark = self.copying.mark[0] if self.copying.mark else self.copying.line
            first, last = sorted((mark, self.copying.line))
            return self._line_of(first) + 1, self._line_of(last) + 1
        selection = self.text_selection
        if selection is not None:
            total = self.line_total()
            first = selection.start.y if selection.start is not None else 0
            last = selection.end.y if selection.end is not None else total
            return self._line_of(first) + 1, self._line_of(last) + 1
        return self.lines_in_view

    def raw_line(self, number: int) -> str:
        """Return the text of a line, counted from 1."""
        return self._text.lines[number - 1] if 0 < number <= self.line_count else ""

    def line_total(self) -> int:
        """Return how many rows there are, a remark at the end included."""
        return (self._wrapping.total if self._wrapping is not None else self.line_count) + bool(self._note)

    def virtual_width(self) -> int:
        """Return the width of the longest line."""
        longest = 0 if self._wrapping is not None else min(self._text.longest, 1_000_000) + self._number_width() + 1
        return max(self.content_width, longest)

    def line_at(self, line: int) -> Line:
        """Return a row with its number, cut to the pane."""
        if line >= self.line_total() - bool(self._note):
            return ((f" {self._note}", "muted"),)
        digits = self._number_width()
        if self._wrapping is not None:
            number, start, end = self._wrapping.locate(line)
        else:
            number, start = line, self.scroll_offset.x
            end = start + self.content_width - digits
        head = f"{number + 1:>{digits - 1}} " if not start or self._wrapping is None else " " * digits
        if self._text.is_long(number):
            part: Line = ((self._text.part(number, start, end), ""),)
            return ((head, "muted"), *self._marked(number, part))
        return ((head, "muted"), *slice_line(self._marked(number, self._text.line(number)), start, end))

    def copied_line(self, line: int) -> str:
        """Return what is copied from a row: all of it, also what does not fit into the pane."""
        if self._wrapping is not None or self.scroll_offset.x or line >= self.line_count:
            return super().copied_line(line)
        return " " * self._number_width() + self._text.part(line, 0, self._text.longest)

    def width_changed(self) -> None:
        """Wrap anew."""
        if self._wrapping is not None:
            self._keep_line(self._wrap)

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Draw the part of the lines that is in view."""
        self.redraw()
        super().watch_scroll_x(old_value, new_value)

    def go_to_line(self, number: int) -> None:
        """Put a line, counted from 1, in the middle of the pane."""
        self._line_gone_to = max(0, min(self.line_count, number) - 1)
        self.sync()
        self.jump(self._row_of(self._line_gone_to) - self.size.height // 2)

    def search(self, words: str) -> list[Match]:
        """Return where words stand in the file; fit for a thread, changes nothing."""
        return self._text.find_all(words)

    def show_matches(self, words: str, matches: Sequence[Match]) -> None:
        """Mark what was found and go to the first match from the top of the pane on."""
        self._words, self._matches, self._match = words, matches, -1
        if matches:
            at = bisect_left(matches, Match(self._line_of(self.scroll_offset.y), 0))
            self._go_to_match(at % len(matches))
        self.redraw()

    @property
    def match_text(self) -> str:
        """Return which match one is at, in words; empty where nothing is looked for."""
        if not self._words:
            return ""
        return f"{self._match + 1:,} of {len(self._matches):,}" if self._matches else "not found"

    def step_match(self, step: int) -> None:
        """Go to the next match, or the one before; round the end."""
        if self._matches:
            self._go_to_match((self._match + step) % len(self._matches))
            self.redraw()

    def action_scroll_aside_left(self) -> None:
        """Show what is further left."""
        self._scroll_aside(self.scroll_offset.x - _SIDE_STEP)

    def action_scroll_aside_right(self) -> None:
        """Show what is further right."""
        self._scroll_aside(self.scroll_offset.x + _SIDE_STEP)

    def action_toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        if self._wrapping is None:
            self._keep_line(self._wrap)
            self._scroll_aside(0)
        else:
            self._keep_line(self._unwrap)

    def _wrap(self) -> None:
        self._wrapping = Wrapping(self._text.lines, self.content_width - self._number_width())

    def _unwrap(self) -> None:
        self._wrapping = None

    def _keep_line(self, change: Callable[[], None]) -> None:
        line = self._line_of(self.scroll_offset.y)
        change()
        self.redraw()
        self.sync()
        self.jump(self._row_of(line))

    def _line_of(self, row: int) -> int:
        if self._wrapping is None:
            return max(0, min(row, self.line_count - 1))
        return self._wrapping.locate(min(row, self._wrapping.total - 1))[0] if self._wrapping.total else 0

    def _row_of(self, line: int) -> int:
        return line if self._wrapping is None else self._wrapping.row_of(line)

    def _scroll_aside(self, column: int) -> None:
        if self.is_running:
            self.scroll_to(x=max(0, column), animate=False, immediate=True)

    def _go_to_match(self, index: int) -> None:
        self._match = index
        match = self._matches[index]
        first, last = self.lines_in_view
        if not first <= match.line + 1 < last:
            self.go_to_line(match.line + 1)
        self._line_gone_to = match.line
        room = self.content_width - self._number_width()
        left = self.scroll_offset.x
        if self._wrapping is None and not left <= match.column < left + room - len(self._words):
            self._scroll_aside(match.column - room // 2 if match.column >= room else 0)

    def _marked(self, number: int, line: Line) -> Line:
        if not self._words:
            return line
        text, wanted = plain(line).casefold(), self._words.casefold()
        is_here = self._match >= 0 and self._matches[self._match].line == number
        at = text.find(wanted)
        for _ in range(_MAX_MARKED):
            if at < 0:
                break
            line = restyle(line, at, at + len(wanted), "match strong" if is_here else "match")
            at = text.find(wanted, at + len(wanted))
        return line

    def _number_width(self) -> int:
        return max(4, len(str(self.line_count))) + 2
