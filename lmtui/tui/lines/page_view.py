"""A text to be read: lines made for the width that there is, wrapped so that nothing is left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Unpack

from lmtui.core.clean import clean, clean_line, show_controls
from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, indent, restyle, wrap

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
        """Wrap anew."""
        self.redraw()

    def _made(self) -> list[Line]:
        if self._made_width != self.content_width:
            self._lines = self._make(self.content_width)
            self._made_width = self.content_width
        return self._lines


def whole_text(text: str, width: int, role: str = "") -> list[Line]:
    """Return a text, all of it: hidden characters named and marked, a line that goes on behind a sign of its own."""
    found: list[Line] = []
    for source in clean(show_controls(text)).split("\n"):
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
        found += [*([()] if found else []), *wrap(((clean_line(text), ""),), max(8, width - 1))]
    return found
