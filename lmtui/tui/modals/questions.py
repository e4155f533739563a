"""Two small questions: yes or no, and a line of text."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from lmtui.tui.commands import Scope, bindings, hint_text, of_scope


class Confirm(ModalScreen[bool]):
    """Asks before something that cannot be taken back; nothing is preselected."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.CONFIRM)]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Vertical(classes="box small"):
            yield Static(self._title, classes="box-title", markup=False)
            yield Static(self._text, classes="box-text", markup=False)
            yield Static(f"{hint_text(of_scope(Scope.CONFIRM))} · esc close", classes="hint", markup=False)

    def action_confirm_yes(self) -> None:
        """Do it."""
        _ = self.dismiss(result=True)

    def action_confirm_no(self) -> None:
        """Leave it."""
        _ = self.dismiss(result=False)

    def action_close_or_stop(self) -> None:
        """Leave it."""
        _ = self.dismiss(result=False)


class AskText(ModalScreen[str | None]):
    """Asks for a line of text; the result is None where it was left."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS = bindings(Scope.APP)

    def __init__(self, title: str, *, value: str = "", placeholder: str = "") -> None:
        super().__init__()
        self._title = title
        self._line = Input(value, placeholder=placeholder, compact=True, select_on_focus=False)
        self._line.cursor_blink = False

    def compose(self) -> ComposeResult:
        """Lay out title and input."""
        with Vertical(classes="box small"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._line
            yield Static("enter done · esc close", classes="hint", markup=False)

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        _ = self.dismiss(event.value.strip())

    def action_close_or_stop(self) -> None:
        """Close without a text."""
        _ = self.dismiss(None)
