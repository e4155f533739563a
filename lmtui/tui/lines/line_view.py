"""The one widget that shows lines, however many there are; what it shows is a `LineSource`.

It draws the lines in view, keeps them, and repaints only those that changed, in frames that it asks for itself.  What it
knows is in its parts: `strips` what is drawn, `frames` when (`timing.py`), `scroller` where the reader is, `cursor` on what,
`copy_mode` what is selected.  Keys come from the app's table: the actions here are what they call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

from textual import events, on
from textual.binding import BindingsMap
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.selection import CopyMode
from lmtui.tui.lines.styled_text import Line, LineSource, Palette, crop, fill, plain, restyle, width_of, wrap
from lmtui.tui.router import Panel
from lmtui.tui.timing import Frames, WidgetOptions

_KEPT_STRIPS = 1500
_WHEEL_LINES = 3


class Cursor(Protocol):
    """What the keys move in a view."""

    def move(self, rows: int) -> None:
        """Move by rows."""

    def page(self, pages: int) -> None:
        """Move by pages."""

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the beginning or the end."""

    def mark(self, line: int, content: Line) -> Line:
        """Return a line as it is shown with the cursor."""

    def can_click(self, line: int, /) -> bool:
        """Tell whether a click on a line does something."""

    def click(self, line: int) -> None:
        """Take a click on a line."""

    def focus_changed(self) -> None:
        """Show or hide the cursor."""


class Hover:
    """The line under the pointer, drawn as the cursor where a click does something."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self.y = self.line = -1

    def put(self, y: int) -> None:
        """Take the row of the pane that the pointer is on, -1 for none; draw again only what differs."""
        view, self.y = self._view, y
        line = y + view.scroll_offset.y if y >= 0 else -1
        is_clickable = view.cursor is not None and 0 <= line < view.source.total() and view.cursor.can_click(line)
        before, self.line = self.line, line if is_clickable else -1
        for each in {before, self.line} - {-1} if before != self.line else ():
            view.strips.forget(each)


class StripCache:
    """The lines of a view that are drawn, and a note over the end of the last row."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self._palette: Palette | None = None
        self._kept: dict[int, tuple[Line, Strip]] = {}
        self._stale_from: int | None = None
        self._note: Line = ()

    def strip(self, y: int) -> Strip:
        """Return one row of the screen."""
        view = self._view
        line = y + view.scroll_offset.y
        total = view.source.total()
        if line >= total:
            strip = self._beyond(y, total)
        else:
            kept = self._kept.get(line)
            if kept is None:
                if len(self._kept) > _KEPT_STRIPS:
                    self._kept.clear()
                kept = self._kept[line] = self._paint(line)
            strip = kept[1]
        return self._with_note(strip) if self._note and y == view.size.height - 1 else strip

    def show_note(self, note: Line) -> None:
        """Show a few words at the end of the last row, over whatever is there."""
        if note != self._note:
            self._note = note
            self._refresh(self._view.size.height - 1)

    def is_note_at(self, x: int, y: int) -> bool:
        """Tell whether the note is shown in a cell."""
        end = self._view.content_width
        return bool(self._note) and y == self._view.size.height - 1 and end - width_of(self._note) - 1 <= x < end

    def forget(self, line: int) -> None:
        """Draw a line again, and nothing else."""
        self._kept.pop(line, None)
        self._view.refresh_line(line)

    def clear(self) -> None:
        """Forget every drawn line."""
        self._kept.clear()

    def restyle(self) -> None:
        """Forget colours and drawn lines: the theme or the focus changed."""
        self._palette = None
        self._kept.clear()

    def mark_stale(self, first: int) -> None:
        """Note, for the next frame, that lines from here on may differ."""
        self._stale_from = first if self._stale_from is None else min(self._stale_from, first)

    def repaint_stale(self) -> None:
        """Repaint the lines in view that differ."""
        view, first = self._view, self._stale_from
        if first is None:
            return
        self._stale_from = None
        top = view.scroll_offset.y
        bottom = top + view.size.height
        total = view.source.total()
        for line in [line for line in self._kept if line >= first]:
            is_seen = top <= line < bottom
            if not is_seen or line >= total or self._kept[line][0] != view.line_at(line):
                del self._kept[line]
                if is_seen:
                    self._refresh(line - top)
        missing = [line for line in range(max(first, top), min(total, bottom)) if line not in self._kept]
        if missing:
            self._refresh(missing[0] - top, missing[-1] - missing[0] + 1)

    @property
    def _styles(self) -> Palette:
        if self._palette is None:
            self._palette = Palette(self._view)
        return self._palette

    def _refresh(self, y: int, rows: int = 1) -> None:
        if self._view.size:
            self._view.refresh(Region(0, y, self._view.size.width, rows))

    def _paint(self, line: int) -> tuple[Line, Strip]:
        view = self._view
        content = view.line_at(line)
        shown = fill(content, view.content_width, "cursor") if line == view.hover.line else content
        for overlay in view.overlays:
            shown = overlay.dress(line, shown) if overlay.is_on else shown
        selection = view.text_selection
        span = selection.get_span(line) if selection is not None else None
        if span is not None:
            shown = restyle(shown, span[0], len(plain(content)) if span[1] < 0 else span[1], "selected")
        width = view.size.width
        return content, self._styles.strip(shown, width).crop(0, width).apply_offsets(0, line)

    def _beyond(self, y: int, total: int) -> Strip:
        width = self._view.size.width
        if total:
            return Strip.blank(width, self._styles.base)
        lines = wrap(((self._view.empty_text, "muted"),), max(10, width - 2))
        line: Line = ((" ", ""), *lines[y]) if y < len(lines) else ()
        return self._styles.strip(line, width).crop(0, width)

    def _with_note(self, under: Strip) -> Strip:
        width = self._view.content_width
        note = self._styles.strip(crop((("  ", ""), *self._note, (" ", "")), width), 0)
        return Strip.join([under.crop(0, width - note.cell_length), note, under.crop(width)])


class LineScroller:
    """Where the reader of a view is: it follows its end while he is there and never moves a reader who is not."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self.is_following = False

    def set_following(self, is_following: bool) -> None:
        """Follow the end, or stop."""
        self.is_following = is_following

    def hold_still(self) -> None:
        """Follow the end no more."""
        self.set_following(False)

    def move(self, lines: int) -> None:
        """Scroll by some lines as the reader asked, at once."""
        self._view.jump(self._view.scroll_offset.y + lines)
        self.note_place()

    def page(self, pages: int) -> None:
        """Scroll by pages, a line kept."""
        self.move(pages * max(1, self._view.size.height - 1))

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the first or the last line."""
        self._view.jump(self._view.max_scroll_y if is_end else 0)
        self.note_place()

    def note_place(self) -> None:
        """Follow the end from now on if the reader is there, else stay."""
        self.set_following(self._view.scroll_offset.y >= self._view.max_scroll_y)

    def dragged(self) -> None:
        """Take note that the reader moved the scroll bar."""
        self.note_place()

    def bring_into_view(self, line: int) -> int:
        """Scroll so that a line is seen, and return where it is then."""
        top = self._view.scroll_offset.y
        seen = max(1, self._view.size.height - 1)
        if not top <= line < top + seen:
            self._view.jump(line if line < top else line - seen + 1)
        return line

    def settle(self) -> None:
        """Make exact what is about to be seen; called before a frame."""

    def restore(self) -> None:
        """Scroll to where the reader is, once the scroll range fits the content."""
        if self.is_following:
            self._view.jump(self._view.max_scroll_y)

    def note(self) -> Line:
        """Return what the reader should know of his place."""
        return ()


class Overlay(Protocol):
    """Marks that are drawn over lines for the moment, and a note on what the keys do meanwhile."""

    @property
    def is_on(self) -> bool:
        """Tell whether there is something to mark."""

    def dress(self, line: int, content: Line) -> Line:
        """Return a line with its marks."""

    def note(self) -> Line:
        """Return the note."""


class VirtualLineView(ScrollView, Panel, can_focus=True, inherit_bindings=False):
    """Shows the lines of a source; `empty_text` is where there are none.  Call `touch` when the content changed."""

    DEFAULT_CSS = """
    VirtualLineView {
        height: 1fr; width: 1fr; overflow-y: scroll; overflow-x: hidden; scrollbar-size-vertical: 1;
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-corner-color: $background;
        scrollbar-color: $foreground 20%; scrollbar-color-hover: $foreground 40%; scrollbar-color-active: $accent;
    }
    """

    empty_text: str = "nothing here yet"
    hop: int = 1
    covered_rows: int = 0  # rows at the end of the pane that something else is drawn over

    @dataclass
    class Copied(Message):
        """Some text was asked to be copied; the copy mode is left."""

        text: str

    def __init__(self, source: LineSource, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.source = source
        self.content_width = 80
        self.strips = StripCache(self)
        self.frames = Frames(self, self._draw)
        self.scroller = LineScroller(self)
        self.cursor: Cursor | None = None
        self.hover = Hover(self)
        self.copy_mode = CopyMode(source)
        self.overlays: Sequence[Overlay] = (self.copy_mode,)
        self._bindings = BindingsMap.merge([BindingsMap(bindings(Scope.COPYING)), self._bindings])

    # -- drawing --------------------------------------------------------------------------------------------------------

    def line_at(self, line: int) -> Line:
        """Return one line as it is shown, marks of the moment aside."""
        if line >= self.source.total():
            return ()
        content = self.source.line(line)
        return content if self.cursor is None else self.cursor.mark(line, content)

    def render_line(self, y: int) -> Strip:
        return self.strips.strip(y)

    def notify_style_update(self) -> None:
        """Forget colours and drawn lines: the theme or the focus changed."""
        super().notify_style_update()
        self._component_styles.clear()
        self.strips.restyle()

    def touch(self, first_line: int | None = None) -> None:
        """Ask for a frame; lines from `first_line` on may differ (none given: only the number of lines does)."""
        if first_line is not None:
            self.strips.mark_stale(first_line)
        self.frames.request()

    def redraw(self) -> None:
        """Forget every drawn line and draw again (theme, width, filter)."""
        self.strips.clear()
        self.touch()
        self.refresh()

    def _draw(self) -> None:
        if self.size:
            self._take_width()
            self.scroller.settle()
            self.sync()

    def sync(self) -> None:
        """Bring the scroll range in line with the content, the reader to his place, and repaint what differs."""
        hop = max(1, min(self.hop, self.size.height // 4))
        rows = -(-self.source.total() // hop) * hop + self.covered_rows
        size = Size(max(self.content_width, self.source.scroll_width()), rows)
        if size != self.virtual_size:
            self.virtual_size = size
        self.scroller.restore()
        self.strips.repaint_stale()
        self.show_note()

    def show_note(self) -> None:
        """Say what the keys do, or what came in, where there is something to say."""
        over = next((each for each in reversed(self.overlays) if each.is_on), None)
        self.strips.show_note(self.scroller.note() if over is None else over.note())

    def on_show(self) -> None:
        self.touch()

    def on_resize(self) -> None:
        self._take_width()
        self.strips.clear()
        if self.size:
            self.scroller.settle()
            self.sync()

    def _take_width(self) -> None:
        """Follow the width; a pane mounted together with its parents gets no event for its first one."""
        width = self.scrollable_content_region.width or self.size.width
        if width and width != self.content_width:
            self.content_width = width
            self.strips.clear()
            self.take_width(width)

    def take_width(self, width: int) -> None:
        """Draw for another width."""
        self.source.set_width(width)
        self.redraw()

    def jump(self, line: int) -> None:
        """Put a line at the top of the pane, at once (one that is not on a screen yet begins at its top)."""
        if self.is_running:
            self.scroll_to(y=max(0, line), animate=False, immediate=True)

    # -- keys and mouse -------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the keys of the copy mode count while it is on."""
        if action == "copying":
            return self.copy_mode.is_on or parameters == ("start",)
        return super().check_action(action, parameters)

    def action_move(self, step: str) -> None:
        """Move the cursor (scroll, where there is none)."""
        target = self.cursor or self.scroller
        match step:
            case "up" | "down":
                target.move(-1 if step == "up" else 1)
            case "page_up" | "page_down":
                target.page(-1 if step == "page_up" else 1)
            case _:
                target.to_edge(is_end=step == "end")

    def action_select(self) -> None:
        """Act on what the cursor is on."""

    def action_copying(self, step: str) -> None:
        """Begin the copy mode in the last line that is seen, or do one of its steps."""
        mode, top, height = self.copy_mode, self.scroll_offset.y, self.size.height
        match step:
            case "start":
                if self.source.total():
                    mode.start(max(top, min(top + height, self.source.total()) - 2))
                    self.scroller.hold_still()
            case "leave":
                mode.is_on = False
            case "copy":
                mode.is_on = False
                self.post_message(self.Copied(mode.copied_text()))
            case "mark" | "lines":
                mode.toggle_mark(is_linewise=step == "lines")
            case _:
                mode.move(step, max(1, height - 2))
                mode.line = self.scroller.bring_into_view(mode.line)
        self.show_note()
        self.redraw()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that the mouse selected."""
        return (self.copy_mode.mouse_text(selection), "\n") if self.source.total() else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        super().selection_updated(selection)
        self.redraw()

    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    @on(events.MouseMove)
    @on(events.Leave)
    def _follow_mouse(self, event: events.MouseEvent | events.Leave) -> None:
        match event:
            case events.MouseMove() | events.Leave():
                self.hover.put(event.y if isinstance(event, events.MouseMove) else -1)
            case _ if not event.ctrl and not event.shift:
                event.stop()
                event.prevent_default()
                self.scroller.move(-_WHEEL_LINES if isinstance(event, events.MouseScrollUp) else _WHEEL_LINES)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraw at the new place."""
        super().watch_scroll_y(old_value, new_value)
        self.hover.put(self.hover.y)
        if self.is_vertical_scrollbar_grabbed:
            self.scroller.dragged()

    @on(events.Focus)
    @on(events.Blur)
    def _focus_changed(self) -> None:
        if self.cursor is not None:
            self.cursor.focus_changed()

    def on_click(self, event: events.Click) -> None:
        """Let the cursor take a click on a line, unless text was selected."""
        line = event.y + self.scroll_offset.y
        if self.strips.is_note_at(event.x, event.y) and not any(each.is_on for each in self.overlays):
            self.scroller.to_edge(is_end=True)
        elif self.cursor is not None and self.text_selection is None and 0 <= line < self.source.total():
            self.cursor.click(line)
