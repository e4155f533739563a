"""A file that is read and searched."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Unpack

from lmtui.tui.lines.file_lines import FileLines
from lmtui.tui.lines.file_text import Match
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, plain, restyle

_MAX_MARKED = 64


class FileView(FileLines, can_focus=True, inherit_bindings=False):
    """A file's lines, and where words stand in them."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._words = ""
        self._matches: Sequence[Match] = ()
        self._match = -1

    def forget_matches(self) -> None:
        """Look for nothing any more."""
        self._words, self._matches, self._match = "", (), -1

    def search(self, words: str) -> list[Match]:
        """Return where words stand in the file; fit for a thread, changes nothing."""
        return self.text_shown.find_all(words)

    def show_matches(self, words: str, matches: Sequence[Match]) -> None:
        """Mark what was found and go to the first match from the top of the pane on."""
        self._words, self._matches, self._match = words, matches, -1
        if matches:
            at = bisect_left(matches, Match(self.line_of(self.scroll_offset.y), 0))
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

    def _go_to_match(self, index: int) -> None:
        self._match = index
        match = self._matches[index]
        first, last = self.lines_in_view
        if not first <= match.line + 1 < last:
            self.go_to_line(match.line + 1)
        self.line_gone_to = match.line
        room = self.content_width - self.lead_cells
        left = self.scroll_offset.x
        if not self.is_wrapped and not left <= match.column < left + room - len(self._words):
            self.scroll_aside(match.column - room // 2 if match.column >= room else 0)

    def marked(self, number: int, line: Line) -> Line:
        """Return a line, or a part of it, with what was found in it marked."""
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
