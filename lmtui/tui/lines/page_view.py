"""Pages of text: lines that a function makes for a width."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Unpack

from lmtui.core.sanitize import sanitize, sanitize_line, show_controls
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import CONTINUED, Line, LineSource, StyleRole, indent, plain, restyle, wrap
from lmtui.tui.timing import WidgetOptions


class Page(LineSource):
    """What a function from a width to lines makes, and a text below it."""

    below = ""

    def __init__(self, make: Callable[[int], list[Line]]) -> None:
        self._make = make
        self._lines: list[Line] = []
        self._made_for = (0, "")

    def total(self) -> int:
        """Return how many lines the text takes at this width."""
        return len(self._made())

    def line(self, number: int) -> Line:
        return self._made()[number]

    def _made(self) -> list[Line]:
        if self._made_for != (self.width, self.below):
            below = whole_text(self.below, self.width, "warn") if self.below else []
            self._lines = [*self._make(self.width), *below]
            self._made_for = (self.width, self.below)
        return self._lines


class PageView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows what a function from a width to lines makes."""

    empty_text = ""

    def __init__(self, make: Callable[[int], list[Line]], **options: Unpack[WidgetOptions]) -> None:
        super().__init__(Page(make), **options)

    def show(self, make: Callable[[int], list[Line]]) -> None:
        """Show something else."""
        self.source = Page(make)
        self.source.set_width(self.content_width)
        self.redraw()


_HIDDEN = re.compile(r"<U\+[0-9A-F]{4,6}>")
_CONTINUED: Line = ((f"{CONTINUED} ", "muted"),)


def whole_text(text: str, width: int, role: StyleRole = "") -> list[Line]:
    """Return a text, all of it: hidden characters named and marked, a line that continues behind its own sign."""
    found: list[Line] = []
    for source in sanitize(show_controls(text)).split("\n"):
        found += whole_line(((source.expandtabs(4), role),) if source else (), width)
    return found


def whole_line(line: Line, width: int, lead: Line = ()) -> list[Line]:
    """Return a clean line, all of it, behind a lead of at most two cells; what continues has its own sign."""
    for hidden in _HIDDEN.finditer(plain(line)):
        line = restyle(line, hidden.start(), hidden.end(), "warn strong")
    first, *rest = wrap(line, max(8, width - 2))
    return [(*lead, *first), *indent(rest, _CONTINUED)]


def paragraphs(texts: list[str], width: int) -> list[Line]:
    """Return texts one below the other, each wrapped, with a blank line between them."""
    found: list[Line] = []
    for text in texts:
        found += [*([()] if found else []), *wrap(((sanitize_line(text), ""),), max(8, width - 1))]
    return found
