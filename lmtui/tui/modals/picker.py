"""A list to choose from, narrowed by typing: palette, models, modes, themes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.clean import clean_line
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.text import pad
from lmtui.tui.modals.results import Choice


class Picker(ModalScreen[str | None]):
    """Shows choices; the result is the id of the chosen one, or None."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.PICKER)]

    SCOPE: ClassVar[Scope] = Scope.PICKER

    def __init__(self, title: str, choices: Sequence[Choice], *, chosen: str = "", note: str = "") -> None:
        super().__init__()
        self._title, self._choices, self._chosen, self._note = title, choices, chosen, note
        self._filter = Input(placeholder="type to narrow", compact=True, select_on_focus=False)
        self._filter.cursor_blink = False
        self._options = OptionList(compact=True, markup=False)

    def compose(self) -> ComposeResult:
        """Lay out title, filter and list."""
        with Vertical(classes="box"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._filter
            yield self._options
            note = f"{self._note} · " if self._note else ""
            yield Static(f"{note}{hint_text(of_scope(Scope.PICKER))} · esc close", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Fill the list."""
        self._fill("")

    @on(Input.Changed)
    def _narrow(self, event: Input.Changed) -> None:
        self._fill(event.value)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        _ = self.dismiss(event.option_id)

    def action_picker_open(self) -> None:
        """Choose the marked line."""
        options = self._options
        if options.highlighted is not None:
            _ = self.dismiss(options.get_option_at_index(options.highlighted).id)

    def action_picker_up(self) -> None:
        """Mark the line before."""
        self._options.action_cursor_up()

    def action_picker_down(self) -> None:
        """Mark the next line."""
        self._options.action_cursor_down()

    def action_close_or_stop(self) -> None:
        """Close without a choice."""
        _ = self.dismiss(None)

    def _fill(self, typed: str) -> None:
        words = typed.lower().split()
        found = [each for each in self._choices if all(word in f"{each.text} {each.note}".lower() for word in words)]
        options = self._options
        width = max((cell_len(clean_line(each.text)) for each in self._choices), default=0) + 2
        options.clear_options()
        options.add_options([Option(_line(each, width), id=each.id) for each in found])
        ids = [each.id for each in found]
        options.highlighted = ids.index(self._chosen) if self._chosen in ids else 0 if ids else None


def _line(choice: Choice, width: int) -> Content:
    return Content.assemble((pad(clean_line(choice.text), width), "$text"), (clean_line(choice.note), "$text-muted"))
