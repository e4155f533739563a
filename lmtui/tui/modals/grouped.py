"""A dialog of rows in groups, with their sums above and what can be said of the marked row below."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.grouped import GroupedList, GroupRow
from lmtui.tui.lines.text import Line, plain
from lmtui.tui.widgets.bars import HEIGHTS
from lmtui.tui.widgets.verbs import Verbs

FRAME_ROWS = 14


class Grouped(ModalScreen[None]):
    """Shows what the subclass gives: `title`, `head`, `columns`, `rows`, and `about` the marked row."""

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.READING
    TITLE_TEXT: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.rows_list = GroupedList()
        self._head = Static("", classes="grouped-head", markup=False)
        self._columns = Static("", classes="grouped-columns", markup=False)
        self._about = Static("", classes="grouped-about", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out sums, rows, what is known of the marked one, and verbs."""
        with Vertical(classes="box wide grouped"):
            yield Static(self.TITLE_TEXT, classes="box-title", markup=False)
            yield self._head
            yield self._columns
            yield self.rows_list
            yield self._about
            yield self._verbs

    @abstractmethod
    def head(self) -> str:
        """Return the sums in words."""

    @abstractmethod
    def columns(self, width: int) -> Line:
        """Return the names of the columns."""

    @abstractmethod
    def rows(self) -> Sequence[GroupRow]:
        """Return the rows."""

    @abstractmethod
    def about(self, row: GroupRow) -> str:
        """Return what can be said of a row."""

    def on_mount(self) -> None:
        """Show the rows."""
        self.rows_list.focus()
        self._verbs.show([*of_scope(self.SCOPE), closing("back")])
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        """Fit the columns to the width."""
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Show what there is now."""
        rows = self.rows()
        self._head.update(self.head())
        self.rows_list.show(rows)
        room = self.size.height - FRAME_ROWS - max(0, self._verbs.size.height - 1)
        self.rows_list.styles.height = max(1, min(room, len(rows)))
        self._columns.update(Content.styled(plain(self.columns(self.rows_list.content_width - 2)), "$text-muted"))

    @on(GroupedList.Marked)
    def _describe(self) -> None:
        current = self.rows_list.current
        self._about.update(Content.styled(self.about(current) if current else "", "$text-muted"))

    def action_grouped_fold(self) -> None:
        """Fold the marked group, or unfold it."""
        self.rows_list.choose()

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)
