"""The base of the line panes: scrolling, following, keys and the wheel over `surface` and `copying`.

A pane follows its end while the reader is there and never moves a reader who is not.  Keys come from the app's table:
the actions here are what they call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, Unpack

from textual import events
from textual.binding import BindingsMap
from textual.message import Message
from textual.selection import Selection

from lmtui.core.sanitize import sanitize, sanitize_line, show_controls
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.styled_text import Line, indent, plain, restyle, wrap
from lmtui.tui.lines.surface import LineSurface, WidgetOptions

_WORD = re.compile(r"\w+|[^\w\s]+")
_MOST_COPIED_LINES = 200_000


@dataclass
class CopyMode:
    """A cursor on a character of a line, and where the selection began."""

    line: int
    column: int = 0
    mark: tuple[int, int] | None = None
    is_linewise: bool = False

    def span(self, line: int, size: int) -> tuple[int, int] | None:
        """Return which characters of a line of so many are selected, the one under the cursor included."""
        if self.mark is None:
            return None
        (first, start), (last, end) = sorted((self.mark, (self.line, self.column)))
        if not first <= line <= last:
            return None
        if self.is_linewise:
            return 0, size
        return start if line == first else 0, min(size, end + 1) if line == last else size

    def toggle_mark(self, *, is_linewise: bool) -> None:
        """Begin a selection here, change its kind, or drop it."""
        if self.mark is None:
            self.mark = (self.line, self.column)
        elif self.is_linewise == is_linewise:
            self.mark = None
        self.is_linewise = is_linewise


class CopyingSurface(LineSurface, can_focus=True, inherit_bindings=False):
    """Lines that can be selected.  `lead_cells` cells at the beginning of each line are not text and are never copied."""

    lead_cells: int = 0

    class Copied(Message):
        """Some text was asked to be copied; the copy mode is left."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.copying: CopyMode | None = None
        self._bindings = BindingsMap.merge([BindingsMap(bindings(Scope.COPYING)), self._bindings])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the keys of the copy mode count while it is on."""
        if action == "copying":
            return self.copying is not None
        return super().check_action(action, parameters)

    def action_start_copying(self) -> None:
        """Put a cursor on the text; it starts in the last line that is seen."""
        if not self.line_total():
            return
        last = min(self.scroll_offset.y + self.size.height, self.line_total()) - 2
        self.copying = CopyMode(max(self.scroll_offset.y, last), self.lead_cells)
        self.hold_still()
        self.note_line()

    def hold_still(self) -> None:
        """Stop following the end: the cursor is somewhere."""

    def note_line(self) -> None:
        """Say, or say no more, what the keys do."""
        keys = hint_text(of_scope(Scope.COPYING))
        self.show_note((("copy mode  ", "accent"), (keys, "muted")) if self.copying is not None else ())

    def action_copying(self, step: str) -> None:
        """Do one of the steps of the copy mode."""
        mode = self.copying
        if mode is None:
            return
        match step:
            case "leave":
                self.leave_copying()
            case "copy":
                text = self.copied_text(mode)
                self.leave_copying()
                self.post_message(self.Copied(text))
            case "mark" | "lines":
                mode.toggle_mark(is_linewise=step == "lines")
                self.redraw()
            case _:
                self._move(mode, step)

    def leave_copying(self) -> None:
        """Put the cursor away."""
        self.copying = None
        self.note_line()
        self.redraw()

    def copied_text(self, mode: CopyMode) -> str:
        """Return what is selected; the line of the cursor where nothing is."""
        first, last = sorted((mode.mark[0] if mode.mark else mode.line, mode.line))
        parts: list[str] = []
        for line in range(first, min(last + 1, first + _MOST_COPIED_LINES)):
            text = self.copied_line(line)
            start, end = mode.span(line, len(text)) or (0, len(text))
            parts.append(text[max(start, self.lead_cells) : end].rstrip())
        return "\n".join(parts)

    def dressed(self, line: int, content: Line) -> Line:
        """Return a line with what is selected in it, and with the cursor."""
        mode = self.copying
        if mode is None:
            return super().dressed(line, content)
        size = len(plain(content))
        span = mode.span(line, size)
        if span is not None:
            content = restyle(content, max(span[0], self.lead_cells), span[1], "selected")
        if line == mode.line:
            if mode.column >= size:
                content = (*content, (" " * (mode.column + 1 - size), ""))
            content = restyle(content, mode.column, mode.column + 1, "caret")
        return content

    def _move(self, mode: CopyMode, step: str) -> None:
        text = self.copied_line(mode.line)
        page = max(1, self.size.height - 2)
        lines = {"up": -1, "down": 1, "page_up": -page, "page_down": page}
        last = self.line_total() - 1
        match step:
            case "left":
                mode.column = max(self.lead_cells, min(mode.column, len(text)) - 1)
            case "right":
                mode.column = min(mode.column + 1, max(self.lead_cells, len(text) - 1))
            case "line_start":
                mode.column = self.lead_cells
            case "line_end":
                mode.column = max(self.lead_cells, len(text) - 1)
            case "word" | "word_back":
                self._move_by_word(mode, is_back=step == "word_back")
            case _:
                target = 0 if step == "first" else last if step == "last" else mode.line + lines[step]
                mode.line = max(0, min(last, target))
        mode.line = self.bring_into_view(mode.line)
        self.redraw()

    def _move_by_word(self, mode: CopyMode, *, is_back: bool) -> None:
        starts = [match.start() for match in _WORD.finditer(self.copied_line(mode.line), self.lead_cells)]
        found = [at for at in starts if (at < mode.column if is_back else at > mode.column)]
        if found:
            mode.column = found[-1] if is_back else found[0]
        elif is_back and mode.line > 0:
            mode.line -= 1
            mode.column = max(self.lead_cells, len(self.copied_line(mode.line)) - 1)
        elif not is_back and mode.line < self.line_total() - 1:
            mode.line, mode.column = mode.line + 1, self.lead_cells

    def bring_into_view(self, line: int) -> int:
        """Scroll so that a line is seen, and return where it is then."""
        top = self.scroll_offset.y
        seen = max(1, self.size.height - 1)
        if not top <= line < top + seen:
            self.jump(line if line < top else line - seen + 1)
        return line

    # -- the mouse ------------------------------------------------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that the mouse selected."""
        total = self.line_total()
        if not total:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = min(total - 1, selection.end.y) if selection.end is not None else total - 1
        parts: list[str] = []
        for line in range(first, min(last + 1, first + _MOST_COPIED_LINES)):
            text = self.copied_line(line)
            start = selection.start.x if selection.start is not None and line == first else 0
            end = selection.end.x if selection.end is not None and line == selection.end.y else len(text)
            parts.append(text[max(start, self.lead_cells) : end].rstrip())
        return "\n".join(parts), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        super().selection_updated(selection)
        self.redraw()


_MAX_MARKED = 64

Place = TypeVar("Place")


class Matches(Generic[Place]):
    """The places of some words, in order; `at` is the number of the one that was gone to, -1 for none."""

    def __init__(self) -> None:
        self.words = ""
        self.places: Sequence[Place] = ()
        self.at = -1

    def take(self, words: str, places: Sequence[Place]) -> None:
        """Know these from now on; blank words are none."""
        self.words, self.places, self.at = (words, places, -1) if words.strip() else ("", (), -1)

    @property
    def here(self) -> Place | None:
        """Return the place that was gone to."""
        return self.places[self.at] if 0 <= self.at < len(self.places) else None

    @property
    def text(self) -> str:
        """Return which match one is at, in words; empty where nothing is looked for."""
        if not self.words:
            return ""
        return f"{self.at + 1:,} of {len(self.places):,}" if self.places else "not found"

    def go(self, number: int) -> Place:
        """Go to a match by its number, round the end, and return its place."""
        self.at = number % len(self.places)
        return self.places[self.at]

    def marked(self, line: Line, *, is_here: bool) -> Line:
        """Return a line with the words marked in it, those that were gone to more than the others."""
        wanted = self.words.casefold()
        text = plain(line).casefold() if wanted else ""
        at = text.find(wanted) if wanted else -1
        for _ in range(_MAX_MARKED):
            if at < 0:
                break
            line = restyle(line, at, at + len(wanted), "match strong" if is_here else "match")
            at = text.find(wanted, at + len(wanted))
        return line


_WHEEL_LINES = 3


class LineView(CopyingSurface, can_focus=True, inherit_bindings=False):
    """A pane of lines that can be scrolled, followed and read out."""

    class FollowChanged(Message):
        """The pane began or stopped to follow its end."""

        def __init__(self, view: LineView, *, is_following: bool) -> None:
            super().__init__()
            self.view = view
            self.is_following = is_following

        @property
        def control(self) -> LineView:
            """Return the pane."""
            return self.view

    def scroll_lines(self, lines: int) -> None:
        """Scroll by some lines as the reader asked, at once."""
        self.jump(self.scroll_offset.y + lines)
        self.note_place()

    def note_place(self) -> None:
        """Follow the end from now on if the reader is there, else stay."""
        self.set_following(self.scroll_offset.y >= self.max_scroll_y)

    def set_following(self, is_following: bool) -> None:
        """Follow the end, or stop."""
        if is_following != self.is_following:
            self.is_following = is_following
            self.post_message(self.FollowChanged(self, is_following=is_following))

    def hold_still(self) -> None:
        """Follow the end no more."""
        self.set_following(False)

    def move_cursor(self, rows: int) -> None:
        """Move the cursor by rows (scroll, where there is none)."""
        self.scroll_lines(rows)

    def move_to_edge(self, is_end: bool) -> None:
        """Go to the first or the last line."""
        self.jump(self.max_scroll_y if is_end else 0)
        self.note_place()

    def choose(self) -> None:
        """Act on what the cursor is on."""

    def action_cursor_up(self) -> None:
        """Go one row up."""
        self.move_cursor(-1)

    def action_cursor_down(self) -> None:
        """Go one row down."""
        self.move_cursor(1)

    def action_page_up(self) -> None:
        """Scroll one page up, a line kept."""
        self.scroll_lines(-max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        """Scroll one page down, a line kept."""
        self.scroll_lines(max(1, self.size.height - 1))

    def action_home(self) -> None:
        """Go to the beginning."""
        self.move_to_edge(is_end=False)

    def action_end(self) -> None:
        """Go to the end and follow it."""
        self.move_to_edge(is_end=True)

    def action_select(self) -> None:
        """Act on what the cursor is on."""
        self.choose()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by the wheel."""
        self._wheel(event, -_WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by the wheel."""
        self._wheel(event, _WHEEL_LINES)

    def _wheel(self, event: events.MouseEvent, lines: int) -> None:
        if event.ctrl or event.shift:
            return
        event.stop()
        event.prevent_default()
        self.scroll_lines(lines)

    def scrolled_by_bar(self) -> None:
        """Take note that the reader moved the scroll bar."""
        self.note_place()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraw at the new place."""
        super().watch_scroll_y(old_value, new_value)
        if self.is_vertical_scrollbar_grabbed:
            self.scrolled_by_bar()


HIDDEN = re.compile(r"<U\+[0-9A-F]{4,6}>")
_GOES_ON: Line = (("↪ ", "muted"),)


class PageView(LineView, can_focus=True, inherit_bindings=False):
    """Shows what a function from a width to lines makes."""

    empty_text = ""

    def __init__(self, make: Callable[[int], list[Line]], **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._make = make
        self._lines: list[Line] = []
        self._made_width = 0

    def show(self, make: Callable[[int], list[Line]]) -> None:
        """Show something else."""
        self._make, self._made_width = make, 0
        self.redraw()

    def line_total(self) -> int:
        """Return how many lines the text takes at this width."""
        return len(self._made())

    def line_at(self, line: int) -> Line:
        """Return one line."""
        lines = self._made()
        return lines[line] if line < len(lines) else ()

    def width_changed(self) -> None:
        """Wrap again."""
        self.redraw()

    def _made(self) -> list[Line]:
        if self._made_width != self.content_width:
            self._lines = self._make(self.content_width)
            self._made_width = self.content_width
        return self._lines


def whole_text(text: str, width: int, role: str = "") -> list[Line]:
    """Return a text, all of it: hidden characters named and marked, a line that continues behind its own sign."""
    found: list[Line] = []
    for source in sanitize(show_controls(text)).split("\n"):
        line: Line = ((source.expandtabs(4), role),) if source else ()
        for hidden in HIDDEN.finditer(source.expandtabs(4)):
            line = restyle(line, hidden.start(), hidden.end(), "warn strong")
        first, *rest = wrap(line, max(8, width - 2))
        found += [first, *indent(rest, _GOES_ON)]
    return found


def paragraphs(texts: list[str], width: int) -> list[Line]:
    """Return texts one below the other, each wrapped, with a blank line between them."""
    found: list[Line] = []
    for text in texts:
        found += [*([()] if found else []), *wrap(((sanitize_line(text), ""),), max(8, width - 1))]
    return found
