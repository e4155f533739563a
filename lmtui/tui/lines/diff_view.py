"""A diff that is read: hunk by hunk, file by file, searched."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Unpack

from textual.message import Message

from lmtui.tui.lines.diff_lines import SPLIT_FROM_WIDTH, DiffLines, Heading
from lmtui.tui.lines.matches import Matches
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line


def split_word(*, is_split: bool) -> str:
    """Return what the key that changes the form would do."""
    return "one column" if is_split else "side by side"


class DiffView(DiffLines, can_focus=True, inherit_bindings=False):
    """A diff, the hunk that the reader is at, and where words stand in it."""

    @dataclass
    class HunkChanged(Message):
        """The reader came to another hunk; `hunk` counts from 1, 0 before the first."""

        view: DiffView
        hunk: int
        hunks: int

        @property
        def control(self) -> DiffView:
            """Return the diff."""
            return self.view

    def __init__(
        self, split_from: int = SPLIT_FROM_WIDTH, *, heading: Heading | None = None, **options: Unpack[WidgetOptions]
    ) -> None:
        self._hunk = 0
        self._matches = Matches[int]()
        super().__init__(split_from, heading=heading, **options)

    def begin_anew(self) -> None:
        """Go to the first hunk and look for nothing."""
        self._hunk = 0
        self._matches.take("", ())

    @property
    def hunk_count(self) -> int:
        """Return how many hunks there are."""
        return len(self.rows.hunk_tops)

    @property
    def current_hunk(self) -> int:
        """Return the hunk that the reader is at, counted from 1 (0 where there is none)."""
        return self._hunk + 1 if self.hunk_count else 0

    def action_next_hunk(self) -> None:
        """Go to the next hunk."""
        self.go_to_hunk(self._hunk + 1)

    def action_previous_hunk(self) -> None:
        """Go to the previous hunk."""
        self.go_to_hunk(self._hunk - 1)

    def step_file(self, step: int) -> None:
        """Go to the next file, or the one before."""
        tops, top = self.rows.file_tops, self.scroll_offset.y
        at = bisect_right(tops, top) if step > 0 else bisect_left(tops, top) - 1
        if 0 <= at < len(tops):
            self.jump(tops[at])
            self.note_place()

    def go_to_hunk(self, hunk: int) -> None:
        """Bring a hunk (from 0) to the top and be at it."""
        tops = self.rows.hunk_tops
        if tops:
            hunk = max(0, min(len(tops) - 1, hunk))
            self.jump(tops[hunk])
            self._set_hunk(hunk)

    def note_place(self) -> None:
        """Take note of the hunk that is in view."""
        super().note_place()
        middle = self.scroll_offset.y + self.size.height // 3
        self._set_hunk(max(0, bisect_right(self.rows.hunk_tops, middle) - 1))

    def search(self, words: str) -> None:
        """Mark words in what is shown and go to the first place from the top of the pane on; none ends the search."""
        places = self.rows.find(words) if words.strip() else []
        self._matches.take(words, places)
        if places:
            self._go_to_match(bisect_left(places, self.scroll_offset.y))
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
        self.bring_into_view(self._matches.go(number))
        self.note_place()

    def marked(self, content: Line, row_line: int) -> Line:
        """Return a line with what was found in it marked."""
        return self._matches.marked(content, is_here=self._matches.here == row_line)

    def lay_out(self) -> None:
        """Lay out, and find again what is looked for."""
        super().lay_out()
        matches = self._matches
        if matches.words:
            matches.places = self.rows.find(matches.words)
            matches.at = min(matches.at, len(matches.places) - 1)

    def _set_hunk(self, hunk: int) -> None:
        if hunk != self._hunk:
            self._hunk = hunk
            self.post_message(self.HunkChanged(self, self.current_hunk, self.hunk_count))
