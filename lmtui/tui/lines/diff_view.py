"""Shows a diff, side by side where there is room and in one column where there is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from textual import events
from textual.message import Message

from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.diff_rows import DiffPainter, DiffRow, diff_rows
from lmtui.tui.lines.patch import FilePatch, digits_of, parse_patch, patch_of_texts
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line

SPLIT_FROM_WIDTH = 84


class DiffView(LineView, can_focus=True, inherit_bindings=False):
    """A diff of one or more files.  `split_from` is the width from which the sides stand beside each other."""

    empty_text = "No changes."

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

    def __init__(self, split_from: int = SPLIT_FROM_WIDTH, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._split_from = split_from
        self._wants_split: bool | None = None
        self._files: tuple[FilePatch, ...] = ()
        self._opened: frozenset[int] = frozenset()
        self._painter = DiffPainter(self.content_width, 3, is_split=False)
        self._lines: list[tuple[DiffRow, int]] = []
        self._hunk_tops: list[int] = []
        self._hunk = 0

    @property
    def is_split(self) -> bool:
        """Tell whether the sides stand beside each other."""
        if self._wants_split is not None:
            return self._wants_split
        has_both = any(line.sign == "-" for file in self._files for hunk in file.hunks for line in hunk.lines)
        return has_both and self.content_width >= self._split_from

    @property
    def hunk_count(self) -> int:
        """Return how many hunks there are."""
        return len(self._hunk_tops)

    @property
    def current_hunk(self) -> int:
        """Return the hunk that the reader is at, counted from 1 (0 where there is none)."""
        return self._hunk + 1 if self._hunk_tops else 0

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many lines were added and removed."""
        return sum(file.added for file in self._files), sum(file.removed for file in self._files)

    def show_diff(self, diff: str, path: str = "") -> None:
        """Show a unified diff; `path` names the file where the diff does not."""
        self.show_patches(parse_patch(diff, path))

    def show_texts(self, pairs: Sequence[tuple[str, str, str]]) -> None:
        """Show what changed from old to new texts, given as (path, old, new); for files of some thousand lines."""
        self.show_patches(tuple(patch_of_texts(*pair) for pair in pairs))

    def show_patches(self, files: tuple[FilePatch, ...]) -> None:
        """Show patches that were read or compared elsewhere."""
        self._files = files
        self._opened = frozenset()
        self._hunk = 0
        self._lay_out()
        self.jump(0)

    def line_total(self) -> int:
        """Return how many lines the diff takes at this width."""
        return len(self._lines)

    def line_at(self, line: int) -> Line:
        """Return one line."""
        if line >= len(self._lines):
            return ()
        row, part = self._lines[line]
        lines = self._painter.lines(row)
        return lines[part] if part < len(lines) else ()

    def width_changed(self) -> None:
        """Lay out anew."""
        self._lay_out()

    def choose(self) -> None:
        """Show the first equal lines in view that are left out."""
        top = self.scroll_offset.y
        for line in range(top, min(top + self.size.height, len(self._lines))):
            if self._open_at(line):
                return

    def action_next_hunk(self) -> None:
        """Go to the next hunk."""
        self._go_to_hunk(self._hunk + 1)

    def action_previous_hunk(self) -> None:
        """Go to the previous hunk."""
        self._go_to_hunk(self._hunk - 1)

    def action_toggle_split(self) -> None:
        """Change between side by side and one column."""
        self._wants_split = not self.is_split
        self._lay_out()

    def note_place(self) -> None:
        """Take note of the hunk that is in view."""
        super().note_place()
        middle = self.scroll_offset.y + self.size.height // 3
        self._set_hunk(max(0, sum(top <= middle for top in self._hunk_tops) - 1))

    def on_click(self, event: events.Click) -> None:
        """Show equal lines that were left out."""
        if self.text_selection is None:
            self._open_at(event.y + self.scroll_offset.y)

    def _open_at(self, line: int) -> bool:
        row = self._lines[line][0] if line < len(self._lines) else None
        if row is None or not row.can_open:
            return False
        self._opened |= {row.hunk}
        self._lay_out()
        return True

    def _lay_out(self) -> None:
        is_split = self.is_split
        self._painter = DiffPainter(self.content_width, digits_of(self._files), is_split=is_split)
        self._lines = []
        self._hunk_tops = []
        seen = -1
        for row in diff_rows(self._files, self._opened, is_split=is_split):
            if row.hunk > seen:
                seen = row.hunk
                self._hunk_tops.append(len(self._lines))
            self._lines += [(row, part) for part in range(self._painter.height(row))]
        self.redraw()

    def _go_to_hunk(self, hunk: int) -> None:
        if self._hunk_tops:
            hunk = max(0, min(len(self._hunk_tops) - 1, hunk))
            self.jump(self._hunk_tops[hunk])
            self._set_hunk(hunk)

    def _set_hunk(self, hunk: int) -> None:
        if hunk != self._hunk:
            self._hunk = hunk
            self.post_message(self.HunkChanged(self, self.current_hunk, self.hunk_count))
