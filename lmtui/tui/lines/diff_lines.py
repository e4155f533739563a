"""The lines of a diff: laid out for the width, drawn on sight, equal parts left out until they are opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from textual import events
from textual.message import Message

from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.diff_layout import DiffLayout
from lmtui.tui.lines.diff_rows import DiffPainter
from lmtui.tui.lines.patch import FilePatch, digits_of, parse_patch, patch_of_texts, with_context
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line

SPLIT_FROM_WIDTH = 84

Heading = Callable[[int], tuple[str, str]]


class DiffLines(LineView, can_focus=True, inherit_bindings=False):
    """A diff of one or more files.

    `split_from` is the width from which the sides stand beside each other.  `heading` gives the words above a hunk and their
    role, by its number from 0.
    """

    empty_text = "No changes."

    @dataclass
    class LaidOut(Message):
        """The sides stand beside each other now, or they do so no more."""

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
        """Tell whether the sides stand beside each other."""
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
        """Lay out anew."""
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
