"""What is drawn where the user wants no colours: no colour code at all; what a background marked is reversed instead."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter, Monochrome
from textual.theme import Theme


class WithoutColor(LineFilter):
    """Takes the colours out of every line.  `marked` are the backgrounds that mean something, as hexadecimal texts."""

    def __init__(self, marked: frozenset[str]) -> None:
        super().__init__()
        self._marked = marked

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """Return the line without colours."""
        return [Segment(text, style and plain_style(style, self._marked), control) for text, style, control in segments]


def filters_without_color(filters: list[LineFilter], theme: Theme) -> list[LineFilter]:
    """Return an app's filters with this one in place of greys; what the theme marks by a background is reversed."""
    marked = frozenset(Color.parse(theme.variables[name]).hex6.lower() for name in ("selection", "text"))
    return [*(each for each in filters if not isinstance(each, Monochrome | WithoutColor)), WithoutColor(marked)]


@lru_cache(4096)
def plain_style(style: Style, marked: frozenset[str]) -> Style:
    """Return a style with its attributes and its meaning for the mouse, reversed where its background marks something."""
    is_marked = style.bgcolor is not None and style.bgcolor.get_truecolor().hex in marked
    return style.without_color + Style(reverse=True if is_marked else None, meta=style.meta)
