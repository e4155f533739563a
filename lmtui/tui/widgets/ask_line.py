"""A line to type into: a filter, words to look for, a number.  It only calls back."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from lmtui.tui.commands import Scope, bindings


class AskLine(Input, inherit_bindings=True):
    """One line; enter sends it, escape closes it, up and down move in what it is about."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.ASKING)
    DEFAULT_CSS = """
    AskLine, AskLine:focus { height: 1; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self, own_id: str) -> None:
        super().__init__(id=own_id, select_on_focus=False)
        self.cursor_blink = False
        self.display = False

    @property
    def is_open(self) -> bool:
        """Tell whether it is on screen."""
        return bool(self.display)

    def ask(
        self,
        what: str,
        about: Widget,
        *,
        text: str = "",
        stays: bool = False,
        sent: Callable[[str], object] = lambda _: None,
        typed: Callable[[str], object] = lambda _: None,
        move: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Show the line; `about` has the keys once the text is given up or sent, then only unless the line `stays`.

        `typed` gets the text as it changes, an empty one where it is given up, `sent` what was sent, `move` -1 or 1 for up and
        down.
        """
        self.placeholder, self.value = what, text
        self.cursor_position = len(text)
        self._about, self._stays, self._on_sent, self._typed, self._move = about, stays, sent, typed, move
        self.display = True
        self.focus()

    def action_give_up(self) -> None:
        """Close the line and take back what it did."""
        self.display = False
        self._typed("")
        self._about.focus()

    def action_step(self, rows: int) -> None:
        """Move in what the line is about."""
        self._move(rows)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self._typed(event.value)

    @on(Input.Submitted)
    def _sent(self, event: Input.Submitted) -> None:
        event.stop()
        if not self._stays:
            self.display = False
            self._about.focus()
        self._on_sent(event.value)
