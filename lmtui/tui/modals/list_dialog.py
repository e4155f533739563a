"""The dialog of every list: rows below a title, what is known of the marked one, and what can be done with it."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize
from lmtui.core.sessions import SettingRow
from lmtui.tui.commands import Command, Scope, bindings, choosing, closing, command, of_scope
from lmtui.tui.lines.styled_text import Line, plain
from lmtui.tui.lines.table import BAR_CELLS, Table
from lmtui.tui.modals.results import LEAST_ROWS, Choice, VeiledScreen
from lmtui.tui.widgets.bars import HEIGHTS, Bar, Part, Verbs

HEIGHTS_OF_LISTS = [*HEIGHTS[:-1], (24, "-high")]  # below, nothing blank is between the parts of a list
Row = TypeVar("Row")
Result = TypeVar("Result")


def shown_group(rows: Sequence[Choice | SettingRow], row: Choice | SettingRow) -> str:
    """Return the group of a row where it begins, nothing in the rows below."""
    at = next((number for number, each in enumerate(rows) if each is row), 0)
    return "" if at and rows[at - 1].group == row.group else row.group


class ColumnNames(Widget):
    """The names of a table's columns, as wide as its rows are when they are drawn."""

    def __init__(self, table: Table[Any], names: Callable[[int], Line]) -> None:
        super().__init__(classes="list-columns")
        self._table, self._names = table, names

    def render(self) -> Content:
        return Content.styled(plain(self._names(self._table.content_width - BAR_CELLS)), "$text-muted")

    def show(self) -> None:
        """Draw the names again; without any, their row is left out."""
        self.set_class(not self._names(self._table.content_width - BAR_CELLS), "-empty")
        self.refresh()


class ListBox(Vertical):
    """Lays a table out between its title, filter and columns, and what is said of the marked row.

    Typing into the filter narrows the rows; `filters_at_once`: it is there from the start and has the keys.
    """

    def __init__(self, dialog: ListDialog[Any, Any], heading: str) -> None:
        name, table, self.filters_at_once = dialog.NAME, dialog.table, dialog.FILTERS_AT_ONCE
        super().__init__(classes="box list", id=f"{name}-box")
        self.table, self.acts_from_filter = table, self.filters_at_once
        self._heading = heading
        self._title = Bar(id=f"{name}-title")
        self._title.add_class("box-title")
        self._title.show([Part(heading, "bold")], [])
        self.filter = Input(placeholder=dialog.FILTER, compact=True, select_on_focus=False)
        self.filter.cursor_blink = False
        sign = Static("❯" if self.filters_at_once else "/", markup=False)
        self.filter_row = Horizontal(sign, self.filter, classes="list-filter")
        self.filter_row.display = self.filters_at_once
        self._head = Static("", classes="list-head -empty", markup=False)
        self._columns = ColumnNames(table, dialog.columns)
        self._state = Static("", id=f"{name}-state", markup=False)
        self._about = VerticalScroll(self._state, classes="list-about", can_focus=False)
        self._verbs = Verbs()
        self._most_rows = 1

    def compose(self) -> ComposeResult:
        yield self._title
        if self.filter.placeholder:
            yield self.filter_row
        yield self._head
        yield self._columns
        yield self.table
        yield self._about
        yield self._verbs

    def on_mount(self) -> None:
        (self.filter if self.filters_at_once else self.table).focus()

    @property
    def typed(self) -> str:
        """Return what is typed into the filter."""
        return self.filter.value.strip()

    def count(self, text: str) -> None:
        """Show how many rows there are, at the right of the title."""
        self._title.show([Part(self._heading, "bold")], [Part(text, "$text-muted")])

    def show_head(self, text: str | Content) -> None:
        """Show a text between the title and the list; an empty one takes it away."""
        self._head.update(text)
        self._head.set_class(not str(text), "-empty")

    def describe(self, content: Content, verbs: Sequence[Command]) -> None:
        """Show what is known of the marked row, and what can be done."""
        self._state.update(content)
        self._about.set_class(not content.plain, "-empty")
        self._verbs.show(verbs)
        self.call_after_refresh(self.fit)

    def fit(self) -> None:
        """Give the list the rows that the rest leaves."""
        if not self.is_attached:  # the dialog closed before what it called for later
            return
        rest = [child for child in self.children if child.display and child is not self.table]
        used = self.gutter.height + sum(child.outer_size.height + child.styles.margin.height for child in rest)
        height = self.screen.size.height
        edge = 1 if height >= LEAST_ROWS else 0
        top = height // 8 if self.screen.has_class("-high") and self.screen.has_class("-roomy") else edge
        self.styles.margin = (top, 0, edge, 0)
        room = height - used - self.table.styles.margin.height - top - edge
        self._most_rows = max(self._most_rows, len(self.table.rows))  # the box keeps its size while something is typed
        self.table.styles.height = max(1, min(room, self._most_rows))
        self._columns.show()

    def open_filter(self, *, is_open: bool) -> None:
        """Show the filter and give it the keys, or clear it."""
        self.filter_row.display = is_open
        if not is_open:
            self.filter.value = ""
        (self.filter if is_open else self.table).focus()


class ListDialog(VeiledScreen[Result], Generic[Row, Result]):
    """Lists rows; the marked one stays marked, or the one in its place, when they are shown again.

    `NAME` is the first part of the ids of its parts, `CHOOSING` what enter does to a row, if anything.  `FILTER` is what an
    empty filter says; without it there is none.  `noun` names a row where none matches.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PICKER, Scope.APP, Scope.MOVING)
    VERTICAL_BREAKPOINTS = HEIGHTS_OF_LISTS
    NAME: ClassVar[str]
    HEADING: ClassVar[str]
    SCOPE: ClassVar[str] = Scope.PICKER
    CHOOSING: ClassVar[str] = "choose"
    CLOSING: ClassVar[str] = "close"
    FILTER: ClassVar[str] = ""
    FILTERS_AT_ONCE: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:  # Any: what a class statement may say
        if "SCOPE" in vars(cls) and "BINDINGS" not in vars(cls):
            cls.BINDINGS = bindings(cls.SCOPE)
        super().__init_subclass__(**kwargs)

    def __init__(self, heading: str = "") -> None:
        super().__init__()
        self.table = Table(self.line, self.key, can_mark=lambda row: bool(self.key(row)))
        self.table.cursor.is_always_shown = True  # what is typed into the filter acts on it too
        self.table.empty_text = ""
        self.table.can_focus = not self.FILTERS_AT_ONCE
        self.all_rows: Sequence[Row] = ()
        self.noun = ""
        self.box = ListBox(self, heading or self.HEADING)
        self._said: tuple[object, Content] | None = None

    def compose(self) -> ComposeResult:
        yield self.box

    def on_resize(self) -> None:
        self.call_after_refresh(self.describe)

    # -- what a list says of itself -------------------------------------------------------------------------------------

    @abstractmethod
    def key(self, row: Row) -> object:
        """Return what a row is known by, something that is false for a heading."""

    @abstractmethod
    def line(self, row: Row, width: int) -> Line:
        """Return a row in aligned columns."""

    @abstractmethod
    def about(self, row: Row | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what there is to know of the marked row (None where there is none), and what can be done."""

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        del width
        return ()

    def matching(self, rows: Sequence[Row], typed: str) -> Sequence[Row]:
        """Return the rows that fit what is typed into the filter."""
        words = typed.lower().split()
        return [row for row in rows if all(word in self.text(row).lower() for word in words)]

    def text(self, row: Row) -> str:
        """Return the text of a row that is searched."""
        return str(self.key(row))

    def act(self) -> None:
        """Do what enter or a click on a row does."""

    # -- showing --------------------------------------------------------------------------------------------------------

    def verbs(self, *left_out: str) -> list[Command]:
        """Return what can be done in this list, but for commands that mean nothing now."""
        has_key = bool(self.FILTER) and not self.FILTERS_AT_ONCE
        own = of_scope(self.SCOPE) if self.SCOPE not in (Scope.PICKER, Scope.HELP) else ()
        found = [*([choosing(self.CHOOSING)] if self.CHOOSING else ()), *own, *([command("picker.filter")] if has_key else ())]
        return [each for each in found if each.id not in left_out]

    @property
    def current(self) -> Row | None:
        """Return the marked row."""
        return self.table.current

    def show(self, rows: Sequence[Row] | None = None, at: object = None) -> None:
        """Show rows, the one with the key `at` marked; without any, those that are shown as they are now."""
        self.all_rows = self.all_rows if rows is None else rows
        shown = self.matching(self.all_rows, self.box.typed) if self.box.typed else self.all_rows
        if self.noun and self.box.typed:
            self.table.empty_text = f'No {self.noun} matches "{sanitize(self.box.typed)}"'
        self.table.show(shown, at)
        self.table.display = bool(shown or self.table.empty_text)
        self.describe()

    @on(Input.Changed)
    def narrow(self) -> None:
        """Show the rows that fit what is typed."""
        self.show()

    @on(Table.Marked)
    def describe(self) -> None:
        """Say what there is to know of the marked row, or what was said last while it is marked."""
        row = self.current
        text, verbs = self.about(row)
        key = self.key(row) if row is not None else None
        if self._said is not None and self._said[0] == key:
            text = self._said[1]
        else:
            self._said = None
        content = text if isinstance(text, Content) else Content.styled(sanitize(text), "$text-muted")
        self.box.describe(content, [*(way for each in verbs for way in each.ways), closing(self.CLOSING)])

    def say(self, text: str, style: str) -> None:
        """Say something below the list, until another row is marked."""
        key = self.key(self.current) if self.current is not None else None
        self._said = key, Content.styled(sanitize(text), style)
        self.describe()

    @contextlib.contextmanager
    def showing_errors(self) -> Iterator[None]:
        """Say below the list what fails inside."""
        try:
            yield
        except LmtuiError as error:
            self.say(error.full_text(), "$error")

    # -- keys -----------------------------------------------------------------------------------------------------------

    @on(Table.Chosen)
    def _act_on_row(self) -> None:
        self.act()

    def action_list_choose(self) -> None:
        """Act on the marked row, or leave the filter for it."""
        if self.box.filter.has_focus and not self.box.acts_from_filter:
            self.table.focus()
        else:
            self.act()

    def action_list_move(self, step: str) -> None:
        """Mark another row."""
        self.table.action_move(step)

    def action_list_filter(self) -> None:
        """Show the filter, where there is one."""
        if self.FILTER:
            self.box.open_filter(is_open=True)

    def on_paste(self, event: events.Paste) -> None:
        """Let the filter take a paste."""
        if self.FILTER and not self.box.filter.has_focus:
            event.stop()
            self.action_list_filter()
            _ = self.box.filter.post_message(events.Paste(event.text))

    def action_close_or_stop(self) -> None:
        """Leave the filter, or close."""
        if self.box.filter_row.display and not self.FILTERS_AT_ONCE:
            self.box.open_filter(is_open=False)
        else:
            _ = self.dismiss(None)
