"""What is picked out of lines: the copy mode's cursor and selection, what the mouse selected, the places of searched words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from textual.selection import Selection

from lmtui.tui.commands import Scope, hint_text, of_scope
from lmtui.tui.lines.styled_text import Line, LineSource, plain, restyle

_WORD = re.compile(r"\w+|[^\w\s]+")
_MOST_COPIED_LINES = 200_000


class CopyMode:
    """A cursor on a character of a line, and a selection that begins at its mark.  What a line leads with is never copied."""

    def __init__(self, source: LineSource) -> None:
        self.source = source
        self.is_on = False
        self.line = self.column = 0
        self.mark: tuple[int, int] | None = None
        self._is_linewise = False

    def start(self, line: int) -> None:
        """Put the cursor at the beginning of a line, with nothing selected."""
        self.is_on, self.mark, self._is_linewise = True, None, False
        self.line, self.column = line, self.source.lead_of(line)

    def toggle_mark(self, *, is_linewise: bool) -> None:
        """Begin a selection here, change its kind, or drop it."""
        if self.mark is None:
            self.mark = (self.line, self.column)
        elif self._is_linewise == is_linewise:
            self.mark = None
        self._is_linewise = is_linewise

    @property
    def lines(self) -> tuple[int, int]:
        """Return the first and the last line that is selected; without a mark, the cursor's."""
        first, last = sorted((self.mark[0] if self.mark else self.line, self.line))
        return first, last

    def note(self) -> Line:
        """Return what the keys do, in one line."""
        return ("copy mode  ", "accent"), (hint_text(of_scope(Scope.COPYING)), "muted")

    def copied_text(self) -> str:
        """Return what is selected; the line of the cursor where nothing is."""
        return self._texts(*self.lines, lambda line, size: self._span(line, size) or (0, size))

    def mouse_text(self, selection: Selection) -> str:
        """Return the text that the mouse selected."""
        last = self.source.total() - 1
        start, end = selection.start, selection.end

        def span(line: int, size: int) -> tuple[int, int]:
            is_first, is_last = start is not None and line == start.y, end is not None and line == end.y
            return start.x if start is not None and is_first else 0, end.x if end is not None and is_last else size

        return self._texts(start.y if start is not None else 0, min(last, end.y) if end is not None else last, span)

    def _texts(self, first: int, last: int, span: Callable[[int, int], tuple[int, int]]) -> str:
        parts: list[str] = []
        for line in range(first, min(last + 1, first + _MOST_COPIED_LINES)):
            text = self.source.text(line)
            start, end = span(line, len(text))
            parts.append(text[max(start, self.source.lead_of(line)) : end].rstrip())
        return "\n".join(parts)

    def dress(self, line: int, content: Line) -> Line:
        """Return a line with what is selected in it, and with the cursor."""
        size = len(plain(content))
        span = self._span(line, size)
        if span is not None:
            content = restyle(content, max(span[0], self.source.lead_of(line)), span[1], "selected")
        if line == self.line:
            if self.column >= size:
                content = (*content, (" " * (self.column + 1 - size), ""))
            content = restyle(content, self.column, self.column + 1, "caret")
        return content

    def move(self, step: str, page: int) -> None:
        """Move the cursor by a step; a page has so many lines."""
        text, lead = self.source.text(self.line), self.source.lead_of(self.line)
        lines = {"up": -1, "down": 1, "page_up": -page, "page_down": page}
        last = self.source.total() - 1
        match step:
            case "left":
                self.column = max(lead, min(self.column, len(text)) - 1)
            case "right":
                self.column = min(self.column + 1, max(lead, len(text) - 1))
            case "line_start":
                self.column = lead
            case "line_end":
                self.column = max(lead, len(text) - 1)
            case "word" | "word_back":
                self._move_by_word(text, is_back=step == "word_back")
            case _:
                target = 0 if step == "first" else last if step == "last" else self.line + lines[step]
                self.line = max(0, min(last, target))

    def _move_by_word(self, text: str, *, is_back: bool) -> None:
        starts = [match.start() for match in _WORD.finditer(text, self.source.lead_of(self.line))]
        found = [at for at in starts if (at < self.column if is_back else at > self.column)]
        if found:
            self.column = found[-1] if is_back else found[0]
        elif is_back and self.line > 0:
            self.line -= 1
            self.column = max(self.source.lead_of(self.line), len(self.source.text(self.line)) - 1)
        elif not is_back and self.line < self.source.total() - 1:
            self.line += 1
            self.column = self.source.lead_of(self.line)

    def _span(self, line: int, size: int) -> tuple[int, int] | None:
        """Return which characters of a line of so many are selected, the one under the cursor included."""
        if self.mark is None:
            return None
        (first, start), (last, end) = sorted((self.mark, (self.line, self.column)))
        if not first <= line <= last:
            return None
        if self._is_linewise:
            return 0, size
        return start if line == first else 0, min(size, end + 1) if line == last else size


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
