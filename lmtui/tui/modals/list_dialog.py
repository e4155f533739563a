"""The dialog of every list: rows in columns below a title, what is known of the marked one, and what can be done with it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input, Static

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize
from lmtui.tui.commands import COMMANDS, Command, Scope, bindings, choosing, command, of_scope
from lmtui.tui.lines.styled_text import STYLES, Line, Span, crop, plain, width_of
from lmtui.tui.lines.table import BAR_CELLS, Table
from lmtui.tui.modals.results import LEAST_ROWS, VeiledScreen
from lmtui.tui.widgets.bars import HEIGHTS, Bar, Part

HEIGHTS_OF_LISTS = [*HEIGHTS[:-1], (24, "-high")]  # below, nothing blank is between the parts of a list
GAP_CELLS, LEAST_CELLS, FAIR_CELLS, MOST_MEASURED = 2, 12, 24, 200
_STYLES = {**STYLES, "strong": "bold", "code": "$text-secondary"}
Row = TypeVar("Row")
Result = TypeVar("Result")
Cell: TypeAlias = "Line | Span | str"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list, as wide as what is in it, up to `most` cells; one without takes what the others leave.

    It is shown `from_width` cells of the list on, and where a row has something in it.
    """

    name: str = ""
    most: int = 0
    is_right: bool = False
    from_width: int = 0


def _line_of(cell: Cell) -> Line:
    if isinstance(cell, str):
        return ((cell, ""),)
    return (cell,) if cell and isinstance(cell[0], str) else cell


def column_cells(columns: Sequence[Column], rows: Sequence[Sequence[Line]], width: int) -> list[int]:
    """Return how many cells each column takes; 0 for one that is left out."""
    found = [max((width_of(row[at]) for row in rows), default=0) for at in range(len(columns))]
    for at, column in enumerate(columns):
        is_shown = found[at] and width >= column.from_width
        found[at] = min(column.most or width, max(found[at], len(column.name))) if is_shown else 0
    flexible = next((at for at, column in enumerate(columns) if not column.most), 0)
    found[flexible] = LEAST_CELLS

    def room() -> int:
        return width - sum(cells + GAP_CELLS for cells in found if cells) + GAP_CELLS

    widest = found.index(max(found))
    found[widest] -= max(0, min(-room(), found[widest] - FAIR_CELLS))
    if flexible and room() < 0:
        found[flexible] = 0
    while room() < 0 and (shown := [at for at, cells in enumerate(found) if cells and at]):
        found[max(shown, key=lambda at: (columns[at].from_width, at))] = 0
    found[flexible if found[flexible] else found.index(max(found))] += room()
    return found


def content_of(lines: Iterable[Line]) -> Content:
    """Return lines as they are drawn below a list."""
    texts = [Content.assemble(*((text, _STYLES.get(role.partition(" ")[0], "")) for text, role in line)) for line in lines]
    return Content("\n").join(texts)


class ColumnNames(Widget):
    """The names of a list's columns, as wide as its rows are when they are drawn."""

    def __init__(self, table: Table[Any], names: Callable[[int], Line]) -> None:
        super().__init__(classes="list-columns")
        self._table, self._names = table, names

    def render(self) -> Content:
        return Content.styled(plain(self._names(self._table.content_width - BAR_CELLS)), "$text-muted")

    def show(self) -> None:
        """Draw the names again; without any, their row is left out."""
        self.set_class(not plain(self._names(self._table.content_width - BAR_CELLS)).strip(), "-empty")
        self.refresh()


class ListBox(Vertical):
    """Lays a table out between its title, filter and columns, and what is said of the marked row.

    Typing into the filter narrows the rows; `filters_at_once`: it is there from the start and has the keys.
    """

    def __init__(self, dialog: ListDialog[Any, Any], heading: str) -> None:
        name, table, self.filters_at_once = dialog.NAME, dialog.table, dialog.FILTERS_AT_ONCE
        super().__init__(classes="box list", id=f"{name}-box")
        self.table, self.acts_from_filter = table, self.filters_at_once
        self._heading = [Part(heading, "bold"), *_tabs(dialog.TAB)]
        self.is_page = dialog.IS_PAGE or bool(dialog.TAB)
        self.set_class(self.is_page, "page")
        self._title = Bar(id=f"{name}-title")
        self._title.add_class("box-title")
        self._title.show(self._heading, [])
        self.filter = Input(placeholder=dialog.FILTER, compact=True, select_on_focus=False)
        self.filter.cursor_blink = False
        sign = Static("❯" if self.filters_at_once else "/", markup=False)
        self.filter_row = Horizontal(sign, self.filter, classes="list-filter")
        self.filter_row.display = self.filters_at_once
        self._head = Static("", classes="list-head -empty", markup=False)
        self._columns = ColumnNames(table, dialog.columns)
        self._state = Static("", id=f"{name}-state", markup=False)
        self._about = VerticalScroll(self._state, classes="list-about", can_focus=False)
        self._most_rows = 1

    def compose(self) -> ComposeResult:
        yield self._title
        if self.filter.placeholder:
            yield self.filter_row
        yield self._head
        yield self._columns
        yield self.table
        yield self._about

    def on_mount(self) -> None:
        (self.filter if self.filters_at_once else self.table).focus()

    @property
    def typed(self) -> str:
        """Return what is typed into the filter."""
        return self.filter.value.strip()

    def count(self, text: str) -> None:
        """Show how many rows there are, at the right of the title."""
        self._title.show(self._heading, [Part(text, "$text-muted", 2)])

    def show_head(self, text: str | Content) -> None:
        """Show a text between the title and the list; an empty one takes it away."""
        self._head.update(text)
        self._head.set_class(not str(text), "-empty")

    def describe(self, content: Content) -> None:
        """Show what is known of the marked row."""
        self._state.update(content)
        self._about.set_class(not content.plain, "-empty")
        self.call_after_refresh(self.fit)

    def fit(self) -> None:
        """Give the list the rows that the rest leaves."""
        if not self.is_attached:  # the dialog closed before what it called for later
            return
        rest = [child for child in self.children if child.display and child is not self.table]
        used = self.gutter.height + sum(child.outer_size.height + child.styles.margin.height for child in rest)
        height = self.screen.size.height
        edge = 1 if height >= LEAST_ROWS else 0
        is_roomy = self.screen.has_class("-high") and self.screen.has_class("-roomy") and not self.is_page
        top = height // 8 if is_roomy else edge
        self.styles.margin = (top, 0, edge, 0)
        room = height - used - self.table.styles.margin.height - top - edge
        self._most_rows = max(self._most_rows, len(self.table.rows))  # the box keeps its size while something is typed
        self.table.styles.height = max(1, room if self.is_page else min(room, self._most_rows))
        self._columns.show()

    def open_filter(self, *, is_open: bool) -> None:
        """Show the filter and give it the keys, or clear it."""
        self.filter_row.display = is_open
        if not is_open:
            self.filter.value = ""
        (self.filter if is_open else self.table).focus()


def _page_of(tab: str) -> list[Command]:
    """Return the commands that open the tabs of a page, by the command of one."""
    return [each for each in COMMANDS if each.tab[0] == command(tab).tab[0]] if tab else []


def _tabs(tab: str) -> list[Part]:
    shown = [
        Part(Content.styled(each.tab[1], "bold underline $accent"), "", 1)
        if each.id == tab
        else Part(Content(each.tab[1]).stylize(Style.from_meta({"verb": f"show_tab('{each.id}')"})), "", 1)
        for each in _page_of(tab)
    ]
    return shown if len(shown) > 1 else []


class ListDialog(VeiledScreen[Result], Generic[Row, Result]):
    """Lists rows; the marked one stays marked, or the one in its place, when they are shown again.

    `NAME` is the first part of the ids of its parts, `COLUMNS` what its rows are laid out in, and `CHOOSING` what enter does to
    a row, if anything.  `VERBS` are the other keys of lists that count here, each with its word: a method `do_yes` is what
    `list.yes` does.  `FILTER` is what an empty filter says; without it there is none.  `noun` names a row where none
    matches.  A text among the rows is a heading.

    One with a `TAB`, the id of the command that opens it, is a tab of the page that the command names; these, and one that
    `IS_PAGE`, fill the screen.  `REFRESH_S` is how often the rows are read again.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.PICKER, Scope.APP, Scope.MOVING)
    VERTICAL_BREAKPOINTS = HEIGHTS_OF_LISTS
    NAME: ClassVar[str]
    HEADING: ClassVar[str]
    SCOPE: ClassVar[str] = Scope.PICKER
    COLUMNS: ClassVar[Sequence[Column]] = (Column(),)
    VERBS: ClassVar[Sequence[tuple[str, str]]] = ()
    CHOOSING: ClassVar[str] = "choose"
    CLOSING: ClassVar[str] = "close"
    FILTER: ClassVar[str] = ""
    FILTERS_AT_ONCE: ClassVar[bool] = False
    TAB: ClassVar[str] = ""
    IS_PAGE: ClassVar[bool] = False
    REFRESH_S: ClassVar[float] = 0.0

    def __init_subclass__(cls, **kwargs: Any) -> None:  # Any: what a class statement may say
        if "SCOPE" in vars(cls) and "BINDINGS" not in vars(cls):
            cls.BINDINGS = bindings(cls.SCOPE)
        super().__init_subclass__(**kwargs)

    def __init__(self, heading: str = "") -> None:
        super().__init__()
        self.table: Table[Any] = Table(self.line, self._key, can_mark=lambda row: bool(self._key(row)))
        self.table.cursor.is_always_shown = True  # what is typed into the filter acts on it too
        self.table.empty_text = ""
        self.table.can_focus = not self.FILTERS_AT_ONCE
        self.all_rows: Sequence[Any] = ()
        self.noun = ""
        page = command(self.TAB).tab[0] if self.TAB else ""
        self.box = ListBox(self, heading or page or self.HEADING)
        self.ends: list[Callable[[], object]] = []  # called when the list is closed
        self._said: tuple[object, Content] | None = None
        self._usable: Sequence[Command] = ()
        self._cells: list[int] = []
        self._cells_for: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield self.box

    def on_mount(self) -> None:
        self.reload()
        if self.REFRESH_S:
            self.set_interval(self.REFRESH_S, self.reload)

    def on_unmount(self) -> None:
        for end in self.ends:
            end()

    def on_resize(self) -> None:
        self.call_after_refresh(self.describe)

    # -- what a list says of itself -------------------------------------------------------------------------------------

    async def rows(self) -> Sequence[Any] | None:
        """Read the rows; None for a list that shows them itself."""
        return None

    def key(self, row: Row) -> object:
        """Return what a row is known by, something that is false for a heading."""
        return row

    def cells(self, row: Row) -> Sequence[Cell]:
        """Return what is in each column of a row; its text is clean."""
        del row
        return ("",) * len(self.COLUMNS)

    def line(self, row: Any, width: int) -> Line:
        """Return a row in aligned columns."""
        if isinstance(row, str):
            return ((row, "muted"),)
        return self._laid_out(self._lines_of(row), width)

    def about(self, row: Row | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what there is to know of the marked row (None where there is none), and what can be done."""
        del row
        return "", self.verbs()

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        names: list[Line] = [((each.name, "muted"),) for each in self.COLUMNS]
        return self._laid_out(names, width) if self.table.rows else ()

    def matching(self, rows: Sequence[Any], typed: str) -> Sequence[Any]:
        """Return the rows that fit what is typed into the filter, each group below its heading."""
        words, found, heading = typed.lower().split(), list[Any](), ""
        for row in rows:
            if isinstance(row, str):
                heading = row
            elif all(word in self.text(row).lower() for word in words):
                found += [heading, row] if heading else [row]
                heading = ""
        return found

    def text(self, row: Row) -> str:
        """Return the text of a row that is searched."""
        return " ".join(map(plain, self._lines_of(row))).strip() or str(self.key(row))

    def act(self) -> None:
        """Do what enter or a click on a row does."""

    # -- columns --------------------------------------------------------------------------------------------------------

    def _key(self, row: Row | str) -> object:
        return "" if isinstance(row, str) else self.key(row)

    def _lines_of(self, row: Row) -> list[Line]:
        return list(map(_line_of, self.cells(row)))

    def column_cells(self, width: int) -> list[int]:
        """Return how many cells each column takes at a width."""
        if self._cells_for != (self.table.rows, width):
            rows = [self._lines_of(row) for row in self.table.rows[:MOST_MEASURED] if not isinstance(row, str)]
            self._cells, self._cells_for = column_cells(self.COLUMNS, rows, width), (self.table.rows, width)
        return self._cells

    def _laid_out(self, cells: Sequence[Line], width: int) -> Line:
        found: list[Span] = []
        for column, room, cell in zip(self.COLUMNS, self.column_cells(width), cells, strict=True):
            if room:
                line = crop(cell, room)
                blank: Span = (" " * (room - width_of(line)), "")
                gap: Span = (" " * GAP_CELLS if found else "", "")
                found += [gap, blank, *line] if column.is_right else [gap, *line, blank]
        return tuple(found)

    # -- showing --------------------------------------------------------------------------------------------------------

    def verbs(self, *left_out: str) -> list[Command]:
        """Return what can be done in this list, but for commands that mean nothing now."""
        own = of_scope(self.SCOPE) if self.SCOPE not in (Scope.PICKER, Scope.HELP) else ()
        found = [choosing(self.CHOOSING)] if self.CHOOSING else []
        found += [replace(command(f"list.{name}"), hint=word) for name, word in self.VERBS]
        found += [*own, *([command("picker.filter")] if self.FILTER and not self.FILTERS_AT_ONCE else ())]
        found += [command("list.tab")] if len(_page_of(self.TAB)) > 1 else []
        return [each for each in found if each.id not in left_out and each.id.removeprefix("list.") not in left_out]

    def key_verbs(self) -> tuple[Sequence[Command], str]:
        """Return what the keys do now, and what escape does."""
        if self.box.filter.has_focus and not self.FILTERS_AT_ONCE:
            return [choosing(self.CHOOSING if self.box.acts_from_filter else "to the list")], "clear"
        return self._usable, self.CLOSING

    @property
    def verb_names(self) -> set[str]:
        """Return the names of the verbs."""
        return {name for name, _ in self.VERBS}

    @property
    def current(self) -> Row | None:
        """Return the marked row."""
        row: Row | None = self.table.current
        return row

    def reload(self) -> None:
        """Read the rows and show them."""
        if self.is_attached:
            self._read_rows()

    @work(group="list-read", exclusive=True)
    async def _read_rows(self) -> None:
        await self._reload()

    async def _reload(self) -> None:
        with self.showing_errors():
            rows = await self.rows()
            if rows is not None and self.is_attached:
                self.show(rows)

    def show(self, rows: Sequence[Any] | None = None, at: object = None) -> None:
        """Show rows, the one with the key `at` marked; without any, those that are shown as they are now."""
        self.all_rows = self.all_rows if rows is None else rows
        shown = self.matching(self.all_rows, self.box.typed) if self.box.typed else self.all_rows
        if self.noun and self.box.typed:
            self.table.empty_text = f'No {self.noun} matches "{sanitize(self.box.typed)}"'
        self._cells_for = ()
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
        self._usable = [way for each in verbs for way in each.ways]
        self.box.describe(text if isinstance(text, Content) else Content.styled(sanitize(text), "$text-muted"))
        self.draw_keys()

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
            if self.is_attached:
                self.say(error.full_text(), "$error")

    # -- keys -----------------------------------------------------------------------------------------------------------

    @on(Table.Chosen)
    def _act_on_row(self) -> None:
        self.act()

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self.draw_keys()

    def action_list_choose(self) -> None:
        """Act on the marked row, or leave the filter for it."""
        if self.box.filter.has_focus and not self.box.acts_from_filter:
            self.table.focus()
        else:
            self.act()

    def action_list_do(self, name: str) -> None:
        """Do what a key of lists does here, and read the rows again."""
        if any(each.id == f"list.{name}" for each in self._usable):
            self.run_worker(self._do(name), group="list-do")

    async def _do(self, name: str) -> None:
        with self.showing_errors():
            done = getattr(self, f"do_{name}")(self.current)
            if inspect.isawaitable(done):
                await done
            await self._reload()

    async def action_next_tab(self, step: int) -> None:
        """Show the next tab of the page, or the one before."""
        tabs = [each.id for each in _page_of(self.TAB)]
        if len(tabs) > 1:
            await self.action_show_tab(tabs[(tabs.index(self.TAB) + step) % len(tabs)])

    async def action_show_tab(self, tab: str) -> None:
        """Show another tab of the page."""
        with self.app.batch_update():
            _ = self.dismiss(None)
            _ = await self.app.run_action(f"app.run_command('{tab}')")

    def action_list_move(self, step: str) -> None:
        """Mark another row."""
        self.table.action_move(step)

    def action_list_filter(self) -> None:
        """Show the filter, where there is one."""
        if self.FILTER:
            self.box.open_filter(is_open=True)

    def action_close_or_stop(self) -> None:
        """Leave the filter, or close."""
        if self.box.filter_row.display and not self.FILTERS_AT_ONCE:
            self.box.open_filter(is_open=False)
        else:
            _ = self.dismiss(None)
