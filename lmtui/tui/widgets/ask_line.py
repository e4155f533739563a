"""A line to type into: a filter, words to look for, a number.  It calls back and knows nothing more."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from textual import on
from textual.binding import BindingType
from textual.widgets import Input

from lmtui.tui.commands import Scope, bindings


class LineAsked(Protocol):
    """Who gets what is typed."""

    def typed(self, text: str) -> None:
        """Take the text as it is now."""

    def done(self, text: str) -> None:
        """Take the text as it was sent."""

    def given_up(self) -> None:
        """Take note that the line was closed."""


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
        self._asked: LineAsked | None = None
        self._move: Callable[[int], None] = lambda _: None

    @property
    def is_open(self) -> bool:
        """Tell whether it is on screen."""
        return bool(self.display)

    def ask(self, asked: LineAsked, what: str, text: str = "", *, move: Callable[[int], None] = lambda _: None) -> None:
        """Show the line; `move` gets -1 or 1 for up and down."""
        self.placeholder, self.value, self._move = what, text, move
        self.cursor_position = len(text)
        self._asked = asked
        self.display = True
        self.focus()

    def close(self) -> None:
        """Put the line away."""
        self.display = False

    def action_give_up(self) -> None:
        """Close the line."""
        self.close()
        if self._asked is not None:
            self._asked.given_up()

    def action_step(self, rows: int) -> None:
        """Move in what the line is about."""
        self._move(rows)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._asked is not None and self.is_open:
            self._asked.typed(event.value)

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        event.stop()
        if self._asked is not None:
            self._asked.done(event.value)
