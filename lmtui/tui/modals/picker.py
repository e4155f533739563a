"""A list to choose from, narrowed by typing: palette, models, modes, themes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SettingRow
from lmtui.tui.commands import Command, Scope, bindings, choosing
from lmtui.tui.lines.page_view import PageView, paragraphs
from lmtui.tui.lines.styled_text import Line
from lmtui.tui.lines.table import BAR_CELLS
from lmtui.tui.modals.consent import ConsentDialog, YesNo
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.results import Choice, VeiledScreen


class Confirm(ConsentDialog[bool]):
    """Asks before something; `yes` is the word for it, left out where it cannot be undone."""

    def __init__(self, title: str, text: str, yes: str = "") -> None:
        super().__init__(YesNo(title, text, yes))


class AskText(VeiledScreen[str | None]):
    """Asks for a line of text, drawn as dots if it `is_secret`, not empty if it `is_needed`; None where it was left."""

    BINDINGS = bindings(Scope.APP)

    def __init__(
        self,
        title: str,
        *,
        value: str = "",
        placeholder: str = "",
        problem: str = "",
        is_secret: bool = False,
        is_needed: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._is_needed = title, is_needed
        self._problem = problem
        self._line = Input(value, placeholder=placeholder, compact=True, select_on_focus=False, password=is_secret)
        self._line.cursor_blink = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="box small"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._line
            if self._problem:
                yield Static(Content.styled(self._problem, "$error"))

    def key_verbs(self) -> tuple[Sequence[Command], str]:
        """Return how the line is sent."""
        return [choosing("confirm")], "close"

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        if event.value.strip() or not self._is_needed:
            _ = self.dismiss(event.value.strip())
        else:
            self.notify(f"Type the {self._title}, or press Esc", markup=False)


FRAME_ROWS = 8
NOTE_ROWS = 3
Result = TypeVar("Result")


class Reading(VeiledScreen[Result | None], Generic[Result]):
    """Shows paragraphs, or what a function from a width to lines makes, with a note below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP, Scope.MOVING)
    SCOPE: ClassVar[Scope] = Scope.PICKER

    def __init__(self, title: str, content: Sequence[str] | Callable[[int], list[Line]], note: str = "") -> None:
        super().__init__()
        self._title = title
        self._page = PageView(content if callable(content) else lambda width: paragraphs(list(content), width))
        self.note = Static(note, classes="consent-notes", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical(classes="box reading"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._page
            if self.note.content:
                yield self.note

    def on_mount(self) -> None:
        self._page.focus()
        self.watch(self._page, "virtual_size", self._fit, init=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        room = self.size.height - FRAME_ROWS - (NOTE_ROWS if self.note.is_attached else 0)
        self._page.styles.height = max(1, min(room, self._page.source.total()))


RECENT = "Recent"
WIDE_ROW, NARROW_ROW = 60, 48
_NOTE = 2  # the column


class Picker(ListDialog[Choice, str | None]):
    """Shows choices; the result is the id of the chosen one, or None.  `marked` is called with the id under the cursor.

    The `hidden` ones are found by typing.  Groups are a blank row apart.
    """

    NAME, HEADING = "picker", ""
    COLUMNS = (Column(most=18, from_width=NARROW_ROW), Column(most=WIDE_ROW), Column(), Column(most=30, is_right=True))
    FILTER, FILTERS_AT_ONCE = "Type to filter", True
    REPEATED: ClassVar[tuple[str, ...]] = (RECENT,)  # groups whose rows are in other groups too

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        chosen: str = "",
        note: str = "",
        noun: str = "choice",
        marked: Callable[[str], object] = lambda _: None,
        hidden: Sequence[Choice] = (),
    ) -> None:
        super().__init__(title)
        self.noun = noun
        self.hidden = hidden
        self._chosen, self._note, self._marked = chosen, note, marked
        self._note_cells = max((cell_len(sanitize_line(each.note)) for each in choices), default=0)
        self.choices = choices

    def on_mount(self) -> None:
        self.show_all()

    def show_all(self) -> None:
        """Show all choices but the hidden ones."""
        rows: list[Choice | str] = []
        for before, each in zip(("", *(each.group for each in self.choices)), self.choices, strict=False):
            rows += ["", each] if rows and each.group != before else [each]
        self.show(rows, next((self.key(each) for each in self.choices if each.id == self._chosen), None))

    @on(Input.Changed)
    def narrow_to_first(self, event: Input.Changed) -> None:
        """Show the rows that fit what is typed, the best one marked."""
        event.prevent_default()
        self.show()
        self.table.action_move("home")

    def key(self, row: Choice) -> object:
        """Return the choice: an id may be empty."""
        return (row.id, row.group if row.group in self.REPEATED else "") if row.group else (row.id,)

    def text(self, row: Choice) -> str:
        """Return what is searched."""
        return f"{row.text} {row.note} {row.words}"

    def matching(self, rows: Sequence[Choice | str], typed: str) -> Sequence[Choice]:
        """Return the choices that fit, those first whose names do, or other words for them."""
        del rows
        found = super().matching([each for each in (*self.choices, *self.hidden) if each.group not in self.REPEATED], typed)
        words = typed.lower().split()
        names = {each: f"{each.text} {each.words}".lower() for each in found}
        return sorted(found, key=lambda each: not all(word in names[each] for word in words))

    def cells(self, row: Choice) -> Sequence[Cell]:
        """Return a choice with its group, its note and its key."""
        group, note = shown_group(self.table.rows, row), sanitize_line(row.note)
        return (group, "muted"), sanitize_line(row.text), (note, "muted"), row.key

    def about(self, row: Choice | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what is said of all choices, or the note of the marked one where there is too little room for it."""
        shown = [each for each in self.table.rows if isinstance(each, Choice)]
        place = next((at for at, each in enumerate(shown, 1) if each is row), 0)
        self.box.count(f"{place} of {len(shown)}" if len(self.choices) > 1 else "")
        if row is not None:
            self._marked(row.id)
        room = self.column_cells(self.table.content_width - BAR_CELLS)[_NOTE]
        is_described = bool(row and not self._note and room < self._note_cells)
        self.box.set_class(is_described, "describes")
        return row.note if row is not None and is_described else self._note, self.verbs()

    def act(self) -> None:
        """Choose the marked line."""
        if self.current is not None:
            _ = self.dismiss(self.current.id)


def shown_group(rows: Sequence[Choice | SettingRow | str], row: Choice | SettingRow) -> str:
    """Return the group of a row where it begins, nothing in the rows below."""
    at = next((number for number, each in enumerate(rows) if each is row), 0)
    return "" if at and getattr(rows[at - 1], "group", "") == row.group else row.group
