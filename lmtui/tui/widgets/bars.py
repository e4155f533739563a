"""The lines at the top and the bottom: where one is, what goes on, what can be done.  They draw what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from lmtui.tui.widgets.fit import Part, fit_line

WIDE_CELLS = 120
WIDTHS = [(0, "-narrow"), (80, "-medium"), (WIDE_CELLS, "-wide")]
HEIGHTS = [(0, "-flat"), (9, "-low"), (13, "-short"), (16, "-high")]


class Bar(Widget):
    """One line of parts, laid out for the width it has; repainted only when what it says changes."""

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; padding: 0 1; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._parts: tuple[Sequence[Part], Sequence[Part]] = ((), ())

    def show(self, left: Sequence[Part], right: Sequence[Part]) -> None:
        """Draw these parts."""
        if (left, right) != self._parts:
            before = self.render()
            self._parts = (left, right)
            after = self.render()
            if (after.plain, after.spans) != (before.plain, before.spans):  # two contents are equal whatever their colours
                self.refresh()

    def render(self) -> Content:
        """Fit the parts to the width."""
        return fit_line(*self._parts, self.content_size.width)


class Spinner(Static):
    """One cell that turns four times a second while something runs, and does nothing at all otherwise."""

    DEFAULT_CSS = """
    Spinner { width: 1; height: 1; color: $accent; }
    """
    SIGNS: ClassVar[str] = "▖▘▝▗"
    TURNS_PER_S: ClassVar[int] = 4

    def show(self, is_running: bool, now: datetime) -> None:
        """Draw the sign of this moment, or a blank."""
        sign = self.SIGNS[int(now.timestamp() * self.TURNS_PER_S) % len(self.SIGNS)] if is_running else " "
        if self.content != sign:
            self.update(sign, layout=False)
