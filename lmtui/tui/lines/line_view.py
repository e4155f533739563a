"""The one widget that shows lines, however many there are; what it shows is a `LineSource`.

It draws the lines in view and repaints only those that changed, in frames that it asks for.  Keys come from the app's table.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Protocol, Unpack

from textual import events, on
from textual.binding import BindingsMap
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.styled_text import (
    Line,
    LineSource,
    Palette,
    Place,
    StyleRole,
    crop,
    fill,
    fit,
    plain,
    restyle,
    width_of,
    wrap,
)
from lmtui.tui.router import Panel
from lmtui.tui.timing import WidgetOptions, call_after, in_slices

_FRAME_S = 1 / 30
_REMOTE_FRAME_S = 1 / 10
_COST_FACTOR = 3  # frames never take most of the time
_LONGEST_S = 0.5
_KEPT_STRIPS = 1500
_WHEEL_LINES = 3


class Cursor(Protocol):
    """What the keys move in a view."""

    def move(self, rows: int) -> None:
        """Move by rows."""

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the beginning or the end."""

    def mark(self, line: int, content: Line) -> Line:
        """Return a line as it is shown with the cursor."""

    def can_click(self, line: int, /) -> bool:
        """Tell whether a click on a line does something."""

    def click(self, line: int) -> None:
        """Take a click on a line."""


class StripCache:
    """The lines of a view that are drawn, and a note over the end of the last row."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self._palette: Palette | None = None
        self._kept: dict[int, tuple[Line, Strip]] = {}
        self._stale_from: int | None = None
        self._note: Line = ()
        self.pointed_y = self._pointed = -1

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
        return self._with_note(strip) if self._note and y == self._note_row else strip

    def point(self, y: int) -> None:
        """Draw the line in a row of the pane (-1: none) as the cursor, where a click does something."""
        view, self.pointed_y = self._view, y
        line = y + view.scroll_offset.y if y >= 0 else -1
        is_clickable = view.cursor is not None and 0 <= line < view.source.total() and view.cursor.can_click(line)
        before, self._pointed = self._pointed, line if is_clickable else -1
        for each in {before, self._pointed} - {-1} if before != self._pointed else ():
            self.forget(each)

    @property
    def _note_row(self) -> int:
        return self._view.size.height - 1 - self._view.covered_rows

    def show_note(self, note: Line) -> None:
        """Show a few words at the end of the last row, over whatever is there."""
        if note != self._note:
            self._note = note
            self._refresh(self._note_row)

    def is_note_at(self, x: int, y: int) -> bool:
        """Tell whether the note is shown in a cell."""
        end = self._view.content_width
        return bool(self._note) and y == self._note_row and end - width_of(self._note) - 1 <= x < end

    def forget(self, line: int) -> None:
        """Draw a line again, and nothing else."""
        self._kept.pop(line, None)
        self._view.refresh_line(line)

    def clear(self, *, has_palette: bool = True) -> None:
        """Forget every drawn line, and the colours where they are others."""
        self._palette = self._palette if has_palette else None
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
        shown = fill(content, view.content_width, "cursor") if line == self._pointed else content
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
    """Where the reader of a view is: at its end, which is followed, or at a place that nothing moves."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self.is_following = False
        self.place: Place = (0, 0)  # of what is at the top of the pane
        self.seen: Place | None = None  # below it all is new

    def set_following(self, is_following: bool) -> None:
        """Follow the end, or stop; what is there now counts as seen."""
        if is_following != self.is_following:
            source = self._view.source
            self.seen = None if is_following else source.place_at(source.total() - 1)
        self.is_following = is_following

    def hold_still(self) -> None:
        """Stay here, whatever comes in below."""
        self.place = self.at_top()
        self.set_following(False)

    def at_top(self) -> Place:
        """Return the place at the top of the pane."""
        return self._view.source.place_at(self._view.scroll_offset.y)

    def go(self, place: Place, *, can_follow: bool = True) -> None:
        """Put a place at the top of the pane; at the end, follow it."""
        source, height = self._view.source, self._view.size.height
        self.place = source.settle(place, height)
        is_end = source.line_of(self.place) + height >= source.total() + self._view.covered_rows
        self.set_following(can_follow and is_end and not self._view.copy_mode.is_on)
        self._view.sync()

    def move(self, lines: int) -> None:
        """Scroll by some lines as the reader asked, at once."""
        if self._view.source.total():
            self.go(self._view.source.moved(self.at_top(), lines))

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the first line, or to the last and follow it."""
        if is_end:
            self.set_following(True)
            self._view.redraw()
            self._view.sync()
        else:
            self.go((0, 0))

    def note_place(self) -> None:
        """Follow the end from now on if the reader is there, else stay."""
        self.set_following(self._view.scroll_offset.y >= self._view.max_scroll_y)

    def show(self, place: Place, *, has_context: bool = False) -> None:
        """Scroll so that a place is seen, if need be with a third of the pane above it."""
        view, source = self._view, self._view.source
        place = source.settle(place, 1)
        line, top, seen = source.line_of(place), view.scroll_offset.y, max(1, view.size.height - 1 - view.covered_rows)
        if not top <= line < top + seen:
            above = seen // 3 if has_context else 0 if line < top else seen - 1
            self.go(source.moved(place, -above), can_follow=False)

    def note(self) -> Line:
        """Say how much came in below, where the reader is not at the end."""
        view, source = self._view, self._view.source
        if self.seen is None or not source.total():
            return ()
        last = source.total() - 1
        self.seen = max(self.seen, source.place_at(min(last, view.scroll_offset.y + view.size.height - 1)))
        below = last - source.line_of(self.seen)
        return ((f" ↓ {pluralize(below, 'new line')} · End ", "accent caret"),) if below > 0 else ()


_MOST_COPIED_LINES = 200_000


def copied_lines(source: LineSource, first: int, last: int, start: int = 0, end: int | None = None) -> str:
    """Return the text of lines, of the first from a character on, of the last up to one; no line's lead is copied."""
    parts: list[str] = []
    for line in range(first, min(last + 1, first + _MOST_COPIED_LINES)):
        begin = max(start if line == first else 0, source.lead_of(line))
        is_same = bool(parts) and source.continues(line)
        parts.append(("" if is_same else "\n") + plain(source.line(line))[begin : end if line == last else None])
    return "\n".join(line.rstrip() for line in "".join(parts)[1:].split("\n"))


class CopyMode:
    """Whole lines that are selected by keys, from where it began to where the keys went."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self.is_on = False
        self._begin = self._end = (0, 0)

    def start(self, line: int) -> None:
        """Select one line."""
        self.is_on = True
        self._begin = self._end = self._view.source.place_at(line)

    def move(self, lines: int) -> None:
        """Select up to so many lines further down, or up."""
        self._put(self._view.source.moved(self._end, lines))

    def to_edge(self, *, is_end: bool) -> None:
        """Select up to the first or the last line."""
        self._put(self._view.source.place_at(self._view.source.total() - 1 if is_end else 0))

    def _put(self, place: Place) -> None:
        self._end = place
        self._view.scroller.show(place)
        self._view.redraw()

    @property
    def lines(self) -> tuple[int, int]:
        """Return the first and the last line."""
        first, last = sorted((self._begin, self._end))
        return self._view.source.line_of(first), self._view.source.line_of(last)

    def note(self) -> Line:
        """Return what the keys do, in one line."""
        return ("copy mode  ", "accent"), (f"↑↓ select  {hint_text(of_scope(Scope.COPYING))}", "muted")

    def copied_text(self) -> str:
        """Return what is selected."""
        return copied_lines(self._view.source, *self.lines)

    def dress(self, line: int, content: Line) -> Line:
        """Return a line, marked where it is selected."""
        first, last = self.lines
        is_in = first <= line <= last
        return restyle(content, self._view.source.lead_of(line), len(plain(content)), "selected") if is_in else content


_MAX_MARKED = 64
_WORDS_CELLS = 20
_COUNTED_PLACES = 100


class Search:
    """Words that are looked for in all of a view's source: marked and counted, gone to one by one."""

    def __init__(self, view: VirtualLineView) -> None:
        self._view = view
        self.words = ""
        self.places: list[Place] = []
        self.is_done = True
        self._at = -1
        self._here: Place | None = None
        self._revision = 0

    @property
    def is_on(self) -> bool:
        """Tell whether words are looked for."""
        return bool(self.words)

    def find(self, words: str, step: int = 1) -> None:
        """Look for words (blank: end the search) and go to the first from the top of the pane on; 0 goes nowhere."""
        words = words if words.strip() else ""
        if words != self.words:
            self.forget()
            self.words = words
            self._look(step)

    def go(self, step: int) -> None:
        """Go to the next match or the one before, round the end, in what is there by now."""
        if self._revision != self._view.source.revision or not self.is_done:
            self._look(step)
        elif self.places:
            self._go(step)

    def forget(self) -> None:
        """Look for nothing: something else is shown."""
        self.words, self.places, self._at, self._here, self.is_done = "", [], -1, None, True
        self._draw()

    def dress(self, line: int, content: Line) -> Line:
        """Return a line with the words marked in it, those that were gone to more than the others."""
        wanted, text = self.words.casefold(), plain(content).casefold()
        role: StyleRole = "match strong" if self._here == self._view.source.place_at(line) else "match"
        at = text.find(wanted)
        for _ in range(_MAX_MARKED):
            if at < 0:
                break
            content = restyle(content, at, at + len(wanted), role)
            at = text.find(wanted, at + len(wanted))
        return content

    def note(self) -> Line:
        """Return what was found and what the keys do."""
        count = f"{len(self.places):,}{'' if self.is_done else '+'}"
        found = f"{self._at + 1:,} of {count}" if self._at >= 0 else count
        if not self.places:
            found = "not found" if self.is_done else "…"
        words: Line = (
            (f"{fit(sanitize_line(self.words), _WORDS_CELLS)} ", "strong"),
            (f" {found}  ", "accent" if self.places else "warn"),
        )
        return (*words, (hint_text(of_scope(Scope.FINDING)), "muted")) if self._view.has_focus else words[1:]

    def _look(self, step: int) -> None:
        self.is_done = False
        _ = self._view.run_worker(self._find(step), group="find", exclusive=True)

    async def _find(self, step: int) -> None:
        """Look through the source; what was found so far is counted meanwhile."""
        source, self.places = self._view.source, []
        self._revision = source.revision
        async for place in in_slices(source.find(self.words) if self.words else ()):
            if place is not None:
                self.places.append(place)
                if len(self.places) % _COUNTED_PLACES == 0:
                    self._view.show_note()
        self.is_done = True
        if self.places and step:
            self._go(step)
        self._draw()

    def _go(self, step: int) -> None:
        view = self._view
        if self._at < 0:
            first = bisect_left(self.places, (view.source.place_at(view.scroll_offset.y)[0], 0))
            self._at = first - 1 if step > 0 else first
        self._at = (self._at + step) % len(self.places)
        view.scroller.hold_still()
        self._here = view.source.reveal(self.places[self._at], self.words)
        view.scroller.show(self._here, has_context=True)
        view.found(self._here)
        self._draw()

    def _draw(self) -> None:
        self._view.redraw()
        self._view.show_note()


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
        self._least_s = _REMOTE_FRAME_S if os.environ.get("SSH_CONNECTION") else _FRAME_S
        self._next_s = 0.0
        self._is_frame_due = False
        self.is_held = False  # while a lot comes in nothing is drawn
        self.scroller = LineScroller(self)
        self.cursor: Cursor | None = None
        self.copy_mode, self.search = CopyMode(self), Search(self)
        self.overlays = self.search, self.copy_mode
        self._bindings = BindingsMap.merge([BindingsMap(bindings(Scope.COPYING, Scope.FINDING)), self._bindings])

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
        self.strips.clear(has_palette=False)

    def touch(self, first_line: int | None = None) -> None:
        """Ask for a frame; lines from `first_line` on may differ (none given: only the number of lines does)."""
        if first_line is not None:
            self.strips.mark_stale(first_line)
        if not self._is_frame_due and not self.is_held and self.is_running:
            self._is_frame_due = True
            call_after(self, max(0.0, self._next_s - perf_counter()), self._draw)

    def redraw(self) -> None:
        """Forget every drawn line and draw again (theme, width, filter)."""
        self.strips.clear()
        self.touch()
        self.refresh()

    def _draw(self) -> None:
        began = thread_time()
        self._is_frame_due = False
        if self.size:
            self._take_width()
            self.sync()
        cost_s = thread_time() - began
        self._next_s = perf_counter() + min(_LONGEST_S, max(self._least_s, _COST_FACTOR * cost_s))

    def sync(self) -> None:
        """Bring the scroll range in line with the content, the reader to his place, and repaint what differs."""
        source, scroller = self.source, self.scroller
        place = source.settle(None if scroller.is_following else scroller.place, self.size.height)
        hop = max(1, min(self.hop, self.size.height // 4))
        rows = -(-source.total() // hop) * hop + self.covered_rows
        size, line = Size(self.content_width, rows), source.line_of(place)
        if size != self.virtual_size:
            self.virtual_size = size
        self.jump(self.max_scroll_y if scroller.is_following else line)
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
        """Let the keys of the copy mode and of the search count while they are on."""
        match action:
            case "copying":
                return self.copy_mode.is_on or parameters == ("start",)
            case "finding":
                return self.search.is_on and not self.copy_mode.is_on
            case _:
                return super().check_action(action, parameters)

    def action_move(self, step: str) -> None:
        """Move the cursor (scroll, where there is none), or the end of what is selected."""
        target = self.copy_mode if self.copy_mode.is_on else self.cursor or self.scroller
        page = max(1, self.size.height - 1)
        rows = {"up": -1, "down": 1, "page_up": -page, "page_down": page}.get(step, 0)
        if rows:
            target.move(rows)
        else:
            target.to_edge(is_end=step == "end")

    def action_select(self) -> None:
        """Act on what the cursor is on."""

    def action_copying(self, step: str) -> None:
        """Select the last line that is seen, copy what is selected, or select nothing."""
        mode = self.copy_mode
        if step == "start" and self.source.total():
            self.scroller.hold_still()
            mode.start(max(0, min(self.scroll_offset.y + self.size.height, self.source.total()) - 2))
        elif step != "start":
            mode.is_on = False
        if step == "copy":
            self.post_message(self.Copied(mode.copied_text()))
        self.show_note()
        self.redraw()

    def action_finding(self, step: int) -> None:
        """Go to another match, or with 0 end the search."""
        if step:
            self.search.go(step)
        else:
            self.search.find("")

    def found(self, place: Place) -> None:
        """Take note that a match was gone to."""

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that the mouse selected."""
        start, end, last = selection.start, selection.end, self.source.total() - 1
        from_line, column = (start.y, start.x) if start is not None else (0, 0)
        to_line, end_column = (end.y, end.x) if end is not None and end.y <= last else (last, None)
        return (copied_lines(self.source, from_line, to_line, column, end_column), "\n") if last >= 0 else None

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
                self.strips.point(event.y if isinstance(event, events.MouseMove) else -1)
            case _ if not event.ctrl and not event.shift:
                event.stop()
                event.prevent_default()
                self.scroller.move(-_WHEEL_LINES if isinstance(event, events.MouseScrollUp) else _WHEEL_LINES)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraw at the new place, and take note of it."""
        super().watch_scroll_y(old_value, new_value)
        self.strips.point(self.strips.pointed_y)
        self.scroller.place = self.scroller.at_top()
        if self.is_vertical_scrollbar_grabbed:
            self.scroller.note_place()
            self.touch()

    @on(events.Focus)
    @on(events.Blur)
    def _focus_changed(self) -> None:
        if self.cursor is not None:
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Let the cursor take a click on a line, unless text was selected."""
        line = event.y + self.scroll_offset.y
        if self.strips.is_note_at(event.x, event.y) and not any(each.is_on for each in self.overlays):
            self.scroller.to_edge(is_end=True)
        elif self.cursor is not None and self.text_selection is None and 0 <= line < self.source.total():
            self.cursor.click(line)
