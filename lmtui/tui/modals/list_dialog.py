"""A dialog with a list: rows below a title, what is known of the marked one, and what can be done with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.sanitize import sanitize
from lmtui.tui.commands import Command, closing
from lmtui.tui.widgets.bars import Verbs

LEAST_CELLS = 30

Row = TypeVar("Row")
Result = TypeVar("Result")


class ListDialog(ModalScreen[Result], Generic[Row, Result]):
    """Lists rows; the marked one stays marked, or the one in its place, when they are shown again.

    `NAME` is the first part of the ids of its parts.  A row without a key is a heading.
    """

    CSS_PATH = Path(__file__).parents[1] / "dialogs.tcss"
    NAME: ClassVar[str]
    HEADING: ClassVar[str]
    SCOPE: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()
        self._options = OptionList(compact=True, markup=False)
        self._state = Static("", id=f"{self.NAME}-state", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(classes="box wide", id=f"{self.NAME}-box"):
            yield Static(self.HEADING, classes="box-title", markup=False)
            yield self._options
            yield self._state
            yield self._verbs

    @abstractmethod
    def key(self, row: Row) -> str:
        """Return what a row is known by."""

    @abstractmethod
    def line(self, row: Row, width: int) -> Content:
        """Return a row in aligned columns."""

    @abstractmethod
    def about(self, row: Row | None) -> tuple[str, Sequence[Command]]:
        """Return what there is to know of the marked row (None where there is none), and what can be done."""

    def act(self) -> None:
        """Do what enter or a click on a row does."""

    def on_mount(self) -> None:
        """Give the list the keys."""
        self._options.focus()

    def on_resize(self) -> None:
        """Lay the columns out for the width."""
        self.call_after_refresh(self.show)

    @property
    def current(self) -> Row | None:
        """Return the marked row."""
        marked = self._options.highlighted
        return self.rows[marked] if marked is not None and marked < len(self.rows) else None

    def show(self, rows: Sequence[Row] | None = None) -> None:
        """Show rows; without any, those that are shown as they are now."""
        options, marked, current = self._options, self._options.highlighted or 0, self.current
        wanted = self.key(current) if current is not None else ""
        self.rows = self.rows if rows is None else rows
        width = max(LEAST_CELLS, options.content_size.width)
        keys = [self.key(row) for row in self.rows]
        options.clear_options()
        options.add_options([Option(self.line(row, width), disabled=not self.key(row)) for row in self.rows])
        options.display = bool(self.rows)
        places = [at for at, key in enumerate(keys) if key]
        near = min(places, key=lambda at: abs(at - marked), default=None)
        options.highlighted = keys.index(wanted) if wanted in keys and wanted else near
        self._tell()

    @on(OptionList.OptionHighlighted)
    def _tell(self) -> None:
        text, verbs = self.about(self.current)
        self.say(text, "$text-muted")
        self._verbs.show([*verbs, closing()])

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.act()

    def say(self, text: str, style: str) -> None:
        """Say something below the list."""
        self._state.update(Content.styled(sanitize(text), style))

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)
