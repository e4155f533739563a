"""Lines drawn on sight in one scrollable widget, however many there are: what is seen, kept, and repainted.

A subclass says how many lines there are and what each one is; this draws the visible ones, keeps them, and repaints
only those that changed, in frames that it asks for itself.  No timer runs while nothing changes.
"""

from __future__ import annotations

from time import thread_time
from typing import ClassVar, Unpack

from textual.geometry import Region, Size

from lmtui.tui.lines.frames import FrameGate
from lmtui.tui.lines.paint import PREFIX, ROLES
from lmtui.tui.lines.painted import PaintedView, WidgetOptions
from lmtui.tui.timers import call_after

__all__ = ["LineSurface", "WidgetOptions"]


class LineSurface(PaintedView, can_focus=True, inherit_bindings=False):
    """A pane of lines.  Subclasses give `line_total` and `line_at`, and call `touch` when their content changed."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {PREFIX + role for role in ROLES}
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
