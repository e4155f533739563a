"""Something to be read: a few paragraphs, or lines made for the width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from lmtui.tui.commands import Scope, bindings, closing
from lmtui.tui.lines.page_view import PageView, paragraphs
from lmtui.tui.lines.text import Line
from lmtui.tui.widgets.verbs import Verbs

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
        self._page.styles.height = max(1, min(self.size.height - FRAME_ROWS, self._page.line_total()))

    def action_reading_close(self) -> None:
        """Go back."""
        _ = self.dismiss(None)

    def action_close_or_stop(self) -> None:
        """Go back."""
        _ = self.dismiss(None)
