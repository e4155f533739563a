"""Shows a file, read-only: line numbers, colours by the chunk in view, long lines cut to the pane."""

from __future__ import annotations

from typing import Unpack

from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.file_text import FileText
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, plain, restyle, slice_line

_SIDE_STEP = 16


class FileView(LineView, can_focus=True, inherit_bindings=False):
    """A file's text.  `show` gives it the bytes; it reads nothing itself."""

    DEFAULT_CSS = """
    FileView { overflow-x: auto; scrollbar-size-horizontal: 1; }
    """
    empty_text = "Choose a file in the tree to read it here."

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.path = ""
        self._text = FileText("", "")
        self._note = ""
        self._query = ""
        self._found = -1

    def show(self, path: str, data: bytes | str, *, total_bytes: int = 0) -> None:
        """Show a file; `total_bytes` tells that it is larger than the data."""
        self.path = path
        self._text = FileText(path, data)
        self._query, self._found = "", -1
        size = total_bytes or len(data)
        self._note = ""
        if self._text.is_binary:
            self._note = f"binary file, {size:,} bytes"
        elif not data:
            self._note = "empty file"
        elif total_bytes > len(data):
            self._note = f"… cut here; the file has {total_bytes:,} bytes"
        self.jump(0)
        self._scroll_aside(0)
        self.redraw()

    def line_total(self) -> int:
        """Return how many lines there are, a remark at the end included."""
        return len(self._text.lines) + bool(self._note)

    def virtual_width(self) -> int:
        """Return the width of the longest line."""
        return max(self.content_width, min(self._text.longest, 1_000_000) + self._number_width() + 1)

    def line_at(self, line: int) -> Line:
        """Return a line with its number, cut to the pane."""
        if line >= len(self._text.lines):
            return ((f" {self._note}", "muted"),)
        digits = self._number_width()
        left, width = self.scroll_offset.x, self.content_width - digits
        number: Line = ((f"{line + 1:>{digits - 1}} ", "muted"),)
        if self._text.is_long(line):
            return (*number, (self._text.part(line, left, left + width), ""))
        return (*number, *slice_line(self._marked(line, self._text.line(line)), left, left + width))

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        """Draw the part of the lines that is in view."""
        self.redraw()
        super().watch_scroll_x(old_value, new_value)

    def go_to_line(self, number: int) -> None:
        """Put a line, counted from 1, in the middle of the pane."""
        line = max(0, min(len(self._text.lines), number) - 1)
        self.jump(line - self.size.height // 2)

    def search(self, text: str) -> bool:
        """Go to the first line from the top of the pane that has the text in it; False if none has."""
        self._query = text
        return self._search_from(self.scroll_offset.y, 1)

    def action_search_next(self) -> None:
        """Go to the next line found."""
        self._search_from(self._found + 1, 1)

    def action_search_previous(self) -> None:
        """Go to the previous line found."""
        self._search_from(self._found - 1, -1)

    def action_scroll_aside_left(self) -> None:
        """Show what is further left."""
        self._scroll_aside(self.scroll_offset.x - _SIDE_STEP)

    def action_scroll_aside_right(self) -> None:
        """Show what is further right."""
        self._scroll_aside(self.scroll_offset.x + _SIDE_STEP)

    def _scroll_aside(self, column: int) -> None:
        if self.is_running:
            self.scroll_to(x=max(0, column), animate=False, immediate=True)

    def _search_from(self, line: int, step: int) -> bool:
        found = self._text.find(self._query, line, step)
        if found >= 0:
            self._found = found
            if not self.scroll_offset.y <= found < self.scroll_offset.y + self.size.height:
                self.go_to_line(found + 1)
        self.redraw()
        return found >= 0

    def _marked(self, number: int, line: Line) -> Line:
        if not self._query:
            return line
        text, wanted = plain(line).casefold(), self._query.casefold()
        at = text.find(wanted)
        while at >= 0:
            line = restyle(line, at, at + len(wanted), "match" if number != self._found else "match strong")
            at = text.find(wanted, at + len(wanted))
        return line

    def _number_width(self) -> int:
        return max(4, len(str(len(self._text.lines)))) + 2
