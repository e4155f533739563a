"""Rows of a line pane as strips: made on sight, kept, with what is drawn over them for the moment."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypedDict, Unpack

from textual.geometry import Region
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lmtui.tui.lines.paint import Palette
from lmtui.tui.lines.text import Line, crop, plain, restyle, wrap

_KEPT_STRIPS = 1500


class WidgetOptions(TypedDict, total=False):
    """What every widget takes by name."""

    id: str | None
    classes: str | None
    disabled: bool


class PaintedView(ScrollView, can_focus=True, inherit_bindings=False):
    """Draws the rows that are in view from `line_total` and `line_at`; `empty_text` stands where there are none."""

    empty_text: str = "nothing here yet"

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.content_width = 80
        self._palette: Palette | None = None
        self._painted: dict[int, tuple[Line, Strip]] = {}
        self._corner_note: Line = ()

    @abstractmethod
    def line_total(self) -> int:
        """Return how many lines there are."""

    @abstractmethod
    def line_at(self, line: int) -> Line:
        """Return one line, at most as wide as the pane; called only for lines that come into view."""

    def copied_line(self, line: int) -> str:
        """Return the text that a selection takes from a line, with its gutter."""
        return plain(self.line_at(line))

    def dressed(self, line: int, content: Line) -> Line:
        """Return a line with the marks that are drawn over it for the moment (what is selected, what was found)."""
        del line
        return content

    def show_note(self, note: Line) -> None:
        """Show a few words at the end of the last row, over whatever stands there; nothing puts them away."""
        if note != self._corner_note:
            self._corner_note = note
            if self.size:
                self.refresh(Region(0, self.size.height - 1, self.size.width, 1))

    def forget_line(self, line: int) -> None:
        """Forget how a line was drawn."""
        self._painted.pop(line, None)

    def render_line(self, y: int) -> Strip:
        """Draw one row of the screen, the note over the end of the last one."""
        strip = self._strip_of(y)
        return self._with_note(strip) if self._corner_note and y == self.size.height - 1 else strip

    def _strip_of(self, y: int) -> Strip:
        palette = self.palette
        width = self.size.width
        line = y + self.scroll_offset.y
        total = self.line_total()
        if not total:
            return self._placeholder(y, width)
        if line >= total:
            return Strip.blank(width, palette.base)
        kept = self._painted.get(line)
        if kept is None:
            if len(self._painted) > _KEPT_STRIPS:
                self._painted.clear()
            kept = self._paint(line, width)
            self._painted[line] = kept
        return kept[1]

    def _with_note(self, under: Strip) -> Strip:
        note = self.palette.strip(crop((("  ", ""), *self._corner_note, (" ", "")), self.content_width), 0)
        return Strip.join([under.crop(0, self.content_width - note.cell_length), note, under.crop(self.content_width)])

    def _paint(self, line: int, width: int) -> tuple[Line, Strip]:
        content = self.line_at(line)
        shown = self.dressed(line, content)
        selection = self.text_selection
        span = selection.get_span(line) if selection is not None else None
        if span is not None:
            shown = restyle(shown, span[0], len(plain(content)) if span[1] < 0 else span[1], "selected")
        strip = self.palette.strip(shown, width)
        return content, strip.crop(0, width).apply_offsets(0, line)

    def _placeholder(self, y: int, width: int) -> Strip:
        lines = wrap(((self.empty_text, "muted"),), max(10, width - 2))
        line: Line = ((" ", ""), *lines[y]) if y < len(lines) else ()
        return self.palette.strip(line, width).crop(0, width)

    @property
    def palette(self) -> Palette:
        """Return the styles of the roles under the theme of the moment."""
        if self._palette is None:
            self._palette = Palette(self)
        return self._palette

    def notify_style_update(self) -> None:
        """Forget colours and drawn lines: the theme or the focus changed."""
        super().notify_style_update()
        self._palette = None
        self._painted.clear()
