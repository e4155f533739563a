"""Another command in place of the one that was asked about."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.modals.consent import DeadTime
from lmtui.tui.widgets.verbs import Verbs


class CommandEdit(ModalScreen[str | None]):
    """A field with the command; `keep` is told of every change, so that nothing written is lost by going back."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.EDIT), *bindings(Scope.APP)]

    SCOPE: ClassVar[Scope] = Scope.EDIT

    def __init__(self, text: str, keep: Callable[[str], None], now: Callable[[], datetime]) -> None:
        super().__init__()
        self._keep = keep
        self._dead_time = DeadTime(now)
        self._field = TextArea(text, compact=True, highlight_cursor_line=False, show_line_numbers=False, id="command-edit")
        self._field.cursor_blink = False
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the field."""
        with Vertical(classes="box"):
            yield Static("RUN THIS INSTEAD", classes="box-title", markup=False)
            yield self._field
            yield Static("The model is told what ran instead.", classes="hint box-text", markup=False)
            yield self._verbs

    def on_mount(self) -> None:
        """Write at the end."""
        self._field.focus()
        self._field.move_cursor(self._field.document.end)
        self._verbs.show([*of_scope(Scope.EDIT), closing("back, the text stays")])
        self._dead_time.restart()

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self._keep(self._field.text)

    def action_edit_send(self) -> None:
        """Run what is written there."""
        if self._field.text.strip() and self._dead_time.is_over:
            _ = self.dismiss(self._field.text)

    def action_edit_newline(self) -> None:
        """Begin another line."""
        self._field.insert("\n")

    def action_close_or_stop(self) -> None:
        """Go back to the question."""
        _ = self.dismiss(None)
