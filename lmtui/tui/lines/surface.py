"""Lines drawn on sight in one scrollable widget, however many there are: what is seen, kept, and repainted.

A subclass says how many lines there are and what each one is; this draws the visible ones, keeps them, and repaints
only those that changed, in frames that it asks for itself.  No timer runs while nothing changes.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from time import perf_counter, thread_time
from typing import ClassVar, TypedDict, Unpack

from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from lmtui.tui.lines.styled_text import ROLES, STYLE_PREFIX, Line, Palette, crop, plain, restyle, wrap
from lmtui.tui.timing import call_after

_KEPT_STRIPS = 1500


class WidgetOptions(TypedDict, total=False):
    """What every widget takes by name."""

    id: str | None
    classes: str | None
    disabled: bool


class PaintedView(ScrollView, can_focus=True, inherit_bindings=False):
    """Draws the rows that are in view from `line_total` and `line_at`; `empty_text` is where there are none."""

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
        """Show a few words at the end of the last row, over whatever is there; nothing puts them away."""
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


_FRAME_S = 1 / 30
_REMOTE_FRAME_S = 1 / 10
_COST_FACTOR = 3
_LONGEST_S = 0.5


class FrameGate:
    """Spaces frames: 30 a second here, 10 over ssh, fewer where a frame costs more than a third of that."""

    def __init__(self, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = perf_counter) -> None:
        self._least_s = _REMOTE_FRAME_S if environ.get("SSH_CONNECTION") else _FRAME_S
        self._clock = clock
        self._next = 0.0

    def wait_s(self) -> float:
        """Return how long the next frame has to wait, 0 for not at all."""
        return max(0.0, self._next - self._clock())

    def drawn(self, cost_s: float) -> None:
        """Note that a frame was drawn just now and what it cost."""
        self._next = self._clock() + min(_LONGEST_S, max(self._least_s, _COST_FACTOR * cost_s))


__all__ = ["LineSurface", "WidgetOptions"]


class LineSurface(PaintedView, can_focus=True, inherit_bindings=False):
    """A pane of lines.  Subclasses give `line_total` and `line_at`, and call `touch` when their content changed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {STYLE_PREFIX + role for role in ROLES}
    DEFAULT_CSS = """
    LineSurface {
        height: 1fr; width: 1fr; overflow-y: scroll; overflow-x: hidden; scrollbar-size-vertical: 1;
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-corner-color: $background;
        scrollbar-color: $foreground 20%; scrollbar-color-hover: $foreground 40%; scrollbar-color-active: $accent;
    }
    LineSurface > .lines--muted { color: $text-muted; }
    LineSurface > .lines--accent { color: $text-accent; }
    LineSurface > .lines--good { color: $text-success; }
    LineSurface > .lines--bad { color: $text-error; }
    LineSurface > .lines--warn { color: $text-warning; }
    LineSurface > .lines--strong { text-style: bold; }
    LineSurface > .lines--em { text-style: italic; }
    LineSurface > .lines--strike { text-style: strike; }
    LineSurface > .lines--code { color: $text-secondary; }
    LineSurface > .lines--link { color: $text-accent; text-style: underline; }
    LineSurface > .lines--heading { color: $text-primary; text-style: bold; }
    LineSurface > .lines--block { background: $panel; }
    LineSurface > .lines--keyword { color: $text-primary; }
    LineSurface > .lines--string { color: $text-success; }
    LineSurface > .lines--comment { color: $text-muted; text-style: italic; }
    LineSurface > .lines--number { color: $text-warning; }
    LineSurface > .lines--function { color: $text-accent; }
    LineSurface > .lines--type { color: $text-secondary; }
    LineSurface > .lines--added { background: $added-ground; }
    LineSurface > .lines--removed { background: $removed-ground; }
    LineSurface > .lines--added-word { background: $added-word-ground; color: $text; }
    LineSurface > .lines--removed-word { background: $removed-word-ground; color: $text; }
    LineSurface > .lines--match { background: $match-ground; color: $text; }
    LineSurface > .lines--cursor { background: $cursor-ground; }
    LineSurface > .lines--selected { background: $selection; }
    LineSurface > .lines--caret { text-style: reverse; }
    """

    hop: int = 1

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.is_following = False
        self._gate = FrameGate()
        self._is_armed = False
        self._stale_from: int | None = None
        self._is_held = False

    # -- what a subclass gives ------------------------------------------------------------------------------------------

    def width_changed(self) -> None:
        """Take up the new `content_width`."""

    def settle(self) -> None:
        """Make exact what is about to be seen; called before a frame."""

    # -- frames ---------------------------------------------------------------------------------------------------------

    def touch(self, first_line: int | None = None) -> None:
        """Ask for a frame; lines from `first_line` on may differ (none given: only the number of lines does)."""
        if first_line is not None:
            self.mark_stale(first_line)
        if not self._is_armed and not self._is_held and self.is_running:
            self._is_armed = True
            call_after(self, self._gate.wait_s(), self._draw)

    def hold_frames(self, *, is_held: bool) -> None:
        """Draw nothing while a lot comes in, and then all of it in one frame."""
        self._is_held = is_held
        if not is_held:
            self.touch(0)

    def mark_stale(self, first_line: int) -> None:
        """Note, for the next frame, that lines from here on may differ."""
        self._stale_from = first_line if self._stale_from is None else min(self._stale_from, first_line)

    def redraw(self) -> None:
        """Forget every drawn line and draw again (theme, width, filter)."""
        self._painted.clear()
        self.touch()
        self.refresh()

    def _draw(self) -> None:
        began = thread_time()
        self._is_armed = False
        if self.size:
            self._take_width()
            self.settle()
            self.sync()
        self._gate.drawn(thread_time() - began)

    def sync(self) -> None:
        """Bring the scroll range in line with the content, follow its end, and repaint what differs."""
        hop = max(1, min(self.hop, self.size.height // 4))
        size = Size(self.virtual_width(), -(-self.line_total() // hop) * hop)
        if size != self.virtual_size:
            self.virtual_size = size
        if self.is_following:
            self.jump(self.max_scroll_y)
        if self._stale_from is not None:
            self._repaint(self._stale_from)
            self._stale_from = None

    def virtual_width(self) -> int:
        """Return the width that can be scrolled over."""
        return self.content_width

    def _repaint(self, first: int) -> None:
        top = self.scroll_offset.y
        bottom = top + self.size.height
        total = self.line_total()
        for line in [line for line in self._painted if line >= first]:
            kept = self._painted[line]
            is_seen = top <= line < bottom
            if not is_seen or line >= total or kept[0] != self.line_at(line):
                del self._painted[line]
                if is_seen:
                    self.refresh(Region(0, line - top, self.size.width, 1))
        missing = [line for line in range(max(first, top), min(total, bottom)) if line not in self._painted]
        if missing:
            self.refresh(Region(0, missing[0] - top, self.size.width, missing[-1] - missing[0] + 1))

    def on_show(self) -> None:
        """Catch up with what came in while the pane was hidden."""
        self.touch()

    def on_resize(self) -> None:
        """Take up the width and keep the place."""
        self._take_width()
        self._painted.clear()
        if self.size:
            self.settle()
            self.sync()

    def _take_width(self) -> None:
        """Follow the width; a pane mounted together with its parents is not told of its first one."""
        width = self.scrollable_content_region.width or self.size.width
        if width and width != self.content_width:
            self.content_width = width
            self._painted.clear()
            self.width_changed()

    def jump(self, line: int) -> None:
        """Put a line at the top of the pane, at once (one that is not on a screen yet begins at its top)."""
        if self.is_running:
            self.scroll_to(y=max(0, line), animate=False, immediate=True)
