"""A list to choose from, narrowed by typing: palette, models, modes, themes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

from lmtui.core.sanitize import sanitize_line
from lmtui.tui.commands import Scope, bindings, closing, hint_text, of_scope
from lmtui.tui.lines.page_view import PageView, paragraphs
from lmtui.tui.lines.styled_text import Line, pad
from lmtui.tui.modals.results import Choice
from lmtui.tui.widgets.bars import Verbs


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


FRAME_ROWS = 8


class Reading(ModalScreen[None]):
    """Shows paragraphs, or what a function from a width to lines makes, until it is closed."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.READING), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.READING

    def __init__(self, title: str, content: Sequence[str] | Callable[[int], list[Line]]) -> None:
        super().__init__()
        self._title = title
        self._page = PageView(content if callable(content) else lambda width: paragraphs(list(content), width))
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out title and text."""
        with Vertical(classes="box reading"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._page
            yield self._verbs

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self._page.focus()
        self._verbs.show([closing("back")])
        self.watch(self._page, "virtual_size", self._fit, init=False)

    def on_resize(self) -> None:
        """Give the text its rows."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        self._page.styles.height = max(1, min(self.size.height - FRAME_ROWS, self._page.source.total()))

    def action_reading_close(self) -> None:
        """Go back."""
        _ = self.dismiss(None)

    def action_close_or_stop(self) -> None:
        """Go back."""
        _ = self.dismiss(None)


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
        width = max((cell_len(sanitize_line(each.text)) for each in self._choices), default=0) + 2
        options.clear_options()
        options.add_options([Option(_line(each, width), id=each.id) for each in found])
        ids = [each.id for each in found]
        options.highlighted = ids.index(self._chosen) if self._chosen in ids else 0 if ids else None


def _line(choice: Choice, width: int) -> Content:
    return Content.assemble((pad(sanitize_line(choice.text), width), "$text"), (sanitize_line(choice.note), "$text-muted"))
