"""A diff that is read: hunk by hunk, file by file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Unpack

from textual.message import Message

from lmtui.core.prompt_text import mention_text
from lmtui.tui.lines.diff_layout import DiffLayout, DiffPainter, Heading
from lmtui.tui.lines.line_view import LineScroller, VirtualLineView
from lmtui.tui.lines.patch import FilePatch, digits_of
from lmtui.tui.lines.styled_text import Line, LineSource, Place
from lmtui.tui.timing import WidgetOptions

SPLIT_FROM_WIDTH = 84


class DiffLines(LineSource):
    """A diff of one or more files as lines, and where words are in it."""

    def __init__(self, split_from: int, heading: Heading | None) -> None:
        self._split_from = split_from
        self._heading = heading
        self.wants_split: bool | None = None
        self.files: tuple[FilePatch, ...] = ()
        self.lay_out()

    @property
    def is_split(self) -> bool:
        """Tell whether the sides are next to each other."""
        if self.wants_split is not None:
            return self.wants_split
        return self.width >= self._split_from and self.can_split

    @property
    def can_split(self) -> bool:
        """Tell whether there are two sides: something was there before, and something is there now."""
        signs = {line.sign for file in self.files for hunk in file.hunks for line in hunk.lines}
        return "-" in signs and len(signs) > 1

    def place_of(self, hunk: int) -> tuple[str, int]:
        """Return the file of a hunk, and which of its hunks that is; no file and -1 where there is none."""
        tops, files = self.layout.hunk_tops, self.layout.file_tops
        if not 0 <= hunk < len(tops):
            return "", -1
        at = bisect_right(files, tops[hunk]) - 1
        return self.files[at].path, hunk - bisect_left(tops, files[at])

    def mention_of(self, hunk: int) -> str:
        """Return the file of a hunk with the lines that are new in it, else the first; empty without hunks."""
        path, number = self.place_of(hunk)
        lines = [each for file in self.files if file.path == path and number >= 0 for each in file.hunks[number].lines]
        new = [line.new for line in lines if line.sign == "+"] or [line.new for line in lines if line.new][:1]
        return f"{mention_text(path)}:{new[0]}-{new[-1]}" if new else path

    def show(self, files: tuple[FilePatch, ...]) -> None:
        """Show patches."""
        self.files = files
        self.revision += 1

    def lay_out(self) -> None:
        """Lay out for the width that there is."""
        self._painter = DiffPainter(self.width, digits_of(self.files), is_split=self.is_split)
        self._drawn: tuple[int, list[Line]] = (-1, [])
        self.layout = DiffLayout(self.files, self._painter, self._heading)
        self.revision += 1

    def total(self) -> int:
        """Return how many lines the diff takes at this width."""
        return self.layout.total

    def line(self, number: int) -> Line:
        row, part = self.layout.at(number)
        top = number - part
        if self._drawn[0] != top:  # a row may take many lines
            self._drawn = top, self._painter.lines(row)
        lines = self._drawn[1]
        return lines[part] if part < len(lines) else ()


def split_word(*, is_split: bool) -> str:
    """Return what the key that changes the form would do."""
    return "one column" if is_split else "side by side"


class HunkScroller(LineScroller):
    """Knows which hunk the reader is at."""

    def __init__(self, view: DiffView) -> None:
        super().__init__(view)
        self._diff = view
        self.hunk = 0

    @property
    def hunk_count(self) -> int:
        return len(self._diff.source.layout.hunk_tops)

    def note_place(self) -> None:
        """Take note of the hunk that is in view."""
        super().note_place()
        middle = self._diff.scroll_offset.y + self._diff.size.height // 3
        self._set_hunk(max(0, bisect_right(self._diff.source.layout.hunk_tops, middle) - 1))

    def go_to_hunk(self, hunk: int) -> None:
        """Bring a hunk (from 0) to the top and be at it."""
        tops = self._diff.source.layout.hunk_tops
        if tops:
            hunk = max(0, min(len(tops) - 1, hunk))
            self._diff.jump(tops[hunk])
            self._set_hunk(hunk)

    def step_file(self, step: int) -> None:
        """Go to the next file, or the one before."""
        tops, top = self._diff.source.layout.file_tops, self._diff.scroll_offset.y
        at = bisect_right(tops, top) if step > 0 else bisect_left(tops, top) - 1
        if 0 <= at < len(tops):
            self._diff.jump(tops[at])
            self.note_place()

    def go_to_file(self, path: str) -> None:
        """Bring the beginning of a file to the top, or that of the first one."""
        self._diff.sync()
        source = self._diff.source
        tops = zip(source.files, source.layout.file_tops, strict=True)
        self._diff.jump(next((top for file, top in tops if file.path == path), 0))
        self.note_place()

    def _set_hunk(self, hunk: int) -> None:
        if hunk != self.hunk:
            self.hunk = hunk
            self._diff.post_message(DiffView.HunkChanged())


class DiffView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows a diff of one or more files, the hunk that the reader is at, and where words are in it.

    `split_from` is the width from which the sides are next to each other.  `heading` gives the words above a hunk and their
    role, by its number from 0.
    """

    empty_text = "No changes."
    source: DiffLines
    scroller: HunkScroller

    class LaidOut(Message):
        """The sides are next to each other now, or they do so no more."""

    class HunkChanged(Message):
        """The reader came to another hunk."""

    def __init__(
        self, split_from: int = SPLIT_FROM_WIDTH, *, heading: Heading | None = None, **options: Unpack[WidgetOptions]
    ) -> None:
        super().__init__(DiffLines(split_from, heading), **options)
        self.scroller = HunkScroller(self)
        self._was_split: bool | None = None

    def show_patches(self, files: tuple[FilePatch, ...]) -> None:
        """Show patches that were read or compared elsewhere."""
        if files != self.source.files:
            self.search.forget()
        self.source.show(files)
        self.scroller.hunk = 0
        self.lay_out()
        self.jump(0)

    def lay_out(self) -> None:
        """Lay out again: for another width or form, with other headings, with more or fewer unchanged lines."""
        self.source.lay_out()
        is_split = self.source.is_split
        if is_split != self._was_split:
            self._was_split = is_split
            self.post_message(self.LaidOut())
        self.redraw()

    def take_width(self, width: int) -> None:
        """Lay out again."""
        self.source.set_width(width)
        self.lay_out()

    def toggle_split(self) -> None:
        """Change between side by side and one column."""
        self.source.wants_split = not self.source.is_split
        self.lay_out()

    def found(self, place: Place) -> None:
        """Be at the hunk of a match."""
        del place
        self.scroller.note_place()
