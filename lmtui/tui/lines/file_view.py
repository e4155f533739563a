"""A file that is read and searched."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Unpack

from lmtui.tui.lines.file_lines import FileLines
from lmtui.tui.lines.file_text import Match
from lmtui.tui.lines.matches import Matches
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line


class FileView(FileLines, can_focus=True, inherit_bindings=False):
    """A file's lines, and where words stand in them."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._matches = Matches[Match]()

    def forget_matches(self) -> None:
        """Look for nothing any more."""
        self._matches.take("", ())

    def search(self, words: str) -> list[Match]:
        """Return where words stand in the file; fit for a thread, changes nothing."""
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
