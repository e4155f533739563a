"""A diff that is read: hunk by hunk, file by file, searched."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from textual import events
from textual.message import Message

from lmtui.tui.lines.diff_layout import DiffLayout, DiffPainter
from lmtui.tui.lines.line_view import LineView, Matches
from lmtui.tui.lines.patch import FilePatch, digits_of, parse_patch, patch_of_texts, with_context
from lmtui.tui.lines.styled_text import Line
from lmtui.tui.lines.surface import WidgetOptions

SPLIT_FROM_WIDTH = 84

Heading = Callable[[int], tuple[str, str]]


class DiffLines(LineView, can_focus=True, inherit_bindings=False):
    """A diff of one or more files.

    `split_from` is the width from which the sides are next to each other.  `heading` gives the words above a hunk and their
    role, by its number from 0.
    """

    empty_text = "No changes."

    @dataclass
    class LaidOut(Message):
        """The sides are next to each other now, or they do so no more."""

        view: DiffLines
        is_split: bool

        @property
        def control(self) -> DiffLines:
            """Return the diff."""
            return self.view

    def __init__(
        self, split_from: int = SPLIT_FROM_WIDTH, *, heading: Heading | None = None, **options: Unpack[WidgetOptions]
    ) -> None:
        super().__init__(**options)
        self._split_from = split_from
        self._heading = heading
        self._wants_split: bool | None = None
        self._was_split: bool | None = None
        self._files: tuple[FilePatch, ...] = ()
        self._opened: frozenset[int] = frozenset()
        self._drawn: tuple[int, list[Line]] = (-1, [])
        self._painter = DiffPainter(self.content_width, 3, is_split=False)
        self.rows = self._laid_out()

    @property
    def is_split(self) -> bool:
        """Tell whether the sides are next to each other."""
        if self._wants_split is not None:
            return self._wants_split
        return self.content_width >= self._split_from and self.can_split

    @property
    def can_split(self) -> bool:
        """Tell whether there are two sides: something was there before."""
        return any(len(run.old) for file in self._files for hunk in file.hunks for run in hunk.runs)

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
        self.begin_anew()
        self.lay_out()
        self.jump(0)

    def begin_anew(self) -> None:
        """Forget what was known of the diff shown before."""

    def line_total(self) -> int:
        """Return how many lines the diff takes at this width."""
        return self.rows.total

    def line_at(self, line: int) -> Line:
        """Return one line."""
        if line >= self.rows.total:
            return ()
        row, part = self.rows.at(line)
        if self._drawn[0] != line - part:  # a row may take many lines
            role = self._heading(row.hunk)[1] if row.kind == "hunk" and self._heading is not None else ""
            self._drawn = line - part, self._painter.lines(row, role)
        lines = self._drawn[1]
        return self.marked(lines[part], line - part) if part < len(lines) else ()

    def marked(self, content: Line, row_line: int) -> Line:
        """Return a line with marks; `row_line` is where its row begins."""
        del row_line
        return content

    def redraw(self) -> None:
        """Forget every drawn line and draw again."""
        self._drawn = -1, []
        super().redraw()

    def width_changed(self) -> None:
        """Lay out again."""
        self.lay_out()

    def choose(self) -> None:
        """Show the first equal lines in view that are left out."""
        top = self.scroll_offset.y
        for line in range(top, min(top + self.size.height, self.line_total())):
            if self._open_at(line):
                return

    def action_toggle_split(self) -> None:
        """Change between side by side and one column."""
        self._wants_split = not self.is_split
        self.lay_out()

    @property
    def has_folds(self) -> bool:
        """Tell whether equal lines can be shown or left out."""
        return bool(self._opened) or any(each.row.can_open for each in self.rows.stretches)

    def fill_in(self, lines: Sequence[str]) -> bool:
        """Make the lines between the hunks known from the new text of the one file shown; False where it does not fit."""
        filled = with_context(self._files[0], lines) if len(self._files) == 1 else None
        if filled is None:
            return False
        self._files = (filled,)
        self.lay_out()
        return True

    def toggle_folds(self) -> None:
        """Show all equal lines that are known, or leave all of them out."""
        known = {each.row.hunk for each in self.rows.stretches if each.row.kind == "fold" and each.row.can_open}
        self._opened = self._opened | known if known else frozenset()
        self.lay_out()

    def relabel(self) -> None:
        """Ask for the words above the hunks again."""
        self.lay_out()

    def on_click(self, event: events.Click) -> None:
        """Show equal lines that were left out."""
        if self.text_selection is None:
            self._open_at(event.y + self.scroll_offset.y)

    def lay_out(self) -> None:
        """Lay out for the width that there is."""
        is_split = self.is_split
        self._painter = DiffPainter(self.content_width, digits_of(self._files), is_split=is_split)
        self.rows = self._laid_out()
        if is_split != self._was_split:
            self._was_split = is_split
            self.post_message(self.LaidOut(self, is_split))
        self.redraw()

    def _open_at(self, line: int) -> bool:
        row = self.rows.at(line)[0] if line < self.line_total() else None
        if row is None or not row.can_open:
            return False
        self._opened |= {row.hunk}
        self.lay_out()
        return True

    def _laid_out(self) -> DiffLayout:
        heading = self._heading
        return DiffLayout(
            self._files,
            self._opened,
            is_split=self.is_split,
            text_width=self._painter.text_width,
            width=self.content_width,
            heading=(lambda number: heading(number)[0]) if heading is not None else None,
        )


def split_word(*, is_split: bool) -> str:
    """Return what the key that changes the form would do."""
    return "one column" if is_split else "side by side"


class DiffView(DiffLines, can_focus=True, inherit_bindings=False):
    """A diff, the hunk that the reader is at, and where words are in it."""

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
