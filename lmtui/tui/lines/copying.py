"""Selecting text, by mouse or with a cursor of the keyboard (copy mode), in any pane of lines.

The copy mode keeps its place by what the pane calls a place, so that lines that grow above it do not move it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Unpack

from textual.binding import BindingsMap
from textual.message import Message
from textual.selection import Selection

from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.surface import LineSurface, WidgetOptions
from lmtui.tui.lines.text import Line, plain, restyle

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
        """Stop following the end: the cursor stands somewhere."""

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
