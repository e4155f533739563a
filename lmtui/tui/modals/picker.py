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
from lmtui.tui.commands import Command, Scope, bindings, closing
from lmtui.tui.lines.page_view import PageView, paragraphs
from lmtui.tui.lines.styled_text import Line, fit, pad
from lmtui.tui.lines.table import BAR_CELLS
from lmtui.tui.modals.consent import ConsentDialog, YesNo
from lmtui.tui.modals.list_dialog import ListDialog, shown_group
from lmtui.tui.modals.results import Choice, VeiledScreen
from lmtui.tui.widgets.bars import Verbs


class Confirm(ConsentDialog[bool]):
    """Asks before something; `yes` is the word for it, left out where it cannot be undone."""

    def __init__(self, title: str, text: str, yes: str = "") -> None:
        super().__init__(YesNo(title, text, yes))


class AskText(VeiledScreen[str | None]):
    """Asks for a line of text, drawn as dots if it `is_secret`; None where it was left."""

    BINDINGS = bindings(Scope.APP)

    def __init__(
        self, title: str, *, value: str = "", placeholder: str = "", problem: str = "", is_secret: bool = False
    ) -> None:
        super().__init__()
        self._title = title
        self._problem = problem
        self._line = Input(value, placeholder=placeholder, compact=True, select_on_focus=False, password=is_secret)
        self._line.cursor_blink = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="box small"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._line
            if self._problem:
                yield Static(Content.styled(self._problem, "$error"))
            yield Static("Enter confirm · Esc close", classes="hint", markup=False)

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        _ = self.dismiss(event.value.strip())


FRAME_ROWS = 10
NOTE_ROWS = 3
Result = TypeVar("Result")


class Reading(VeiledScreen[Result | None], Generic[Result]):
    """Shows paragraphs, or what a function from a width to lines makes, with a note below, until it is closed."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.READING, Scope.APP, Scope.MOVING)

    SCOPE: ClassVar[Scope] = Scope.READING

    def __init__(
        self,
        title: str,
        content: Sequence[str] | Callable[[int], list[Line]],
        note: str = "",
        verbs: Sequence[Command] = (),
    ) -> None:
        super().__init__()
        self._title, self._shown = title, verbs or [closing("back")]
        self._page = PageView(content if callable(content) else lambda width: paragraphs(list(content), width))
        self.note = Static(note, classes="consent-notes", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        with Vertical(classes="box reading"):
            yield Static(self._title, classes="box-title", markup=False)
            yield self._page
            if self.note.content:
                yield self.note
            yield self._verbs

    def on_mount(self) -> None:
        self._page.focus()
        self._verbs.show(self._shown)
        self.watch(self._page, "virtual_size", self._fit, init=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        room = self.size.height - FRAME_ROWS - (NOTE_ROWS if self.note.is_attached else 0)
        self._page.styles.height = max(1, min(room, self._page.source.total()))


RECENT = "Recent"
WIDE_ROW, NARROW_ROW, MOST_GROUP, NARROW_GROUP, LEAST_NOTE = 60, 48, 16, 12, 36


class Picker(ListDialog[Choice, str | None]):
    """Shows choices; the result is the id of the chosen one, or None.  `marked` is called with the id under the cursor."""

    NAME, HEADING = "picker", ""
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
    ) -> None:
        super().__init__(title)
        self.noun = noun
        self._chosen, self._note, self._marked = chosen, note, marked
        self._group_cells = min(MOST_GROUP, max((cell_len(each.group) for each in choices), default=0)) + 2
        self._text_cells = max((cell_len(sanitize_line(each.text)) for each in choices), default=0) + 2
        self._note_cells = max((cell_len(sanitize_line(each.note)) for each in choices), default=0)
        self._key_cells = max((cell_len(each.key) for each in choices), default=0) + 2
        self._choices = choices

    def _leaves_notes_out(self, width: int) -> bool:
        """Tell whether most notes would be cut; then the marked choice's is below the list."""
        room = width - self._text_cells - self._key_cells - self._group_column(width)
        return room < min(self._note_cells, LEAST_NOTE)

    def _group_column(self, width: int) -> int:
        most = MOST_GROUP + 2 if width > WIDE_ROW else NARROW_GROUP if width >= NARROW_ROW else 0
        return min(most, self._group_cells) if self._group_cells > 2 else 0

    def on_mount(self) -> None:
        self.show(self._choices, (self._chosen,))
        self.box.count(f"{len({each.id for each in self._choices})}")

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

    def matching(self, rows: Sequence[Choice], typed: str) -> Sequence[Choice]:
        """Return the choices that fit, those first whose names do."""
        found = super().matching([each for each in rows if each.group not in self.REPEATED], typed)
        words = typed.lower().split()
        return sorted(found, key=lambda each: not all(word in each.text.lower() for word in words))

    def line(self, row: Choice, width: int) -> Line:
        """Return a choice with its group, its note and its key."""
        cells = self._group_column(width)
        group = pad(fit(shown_group(self.table.rows, row), max(0, cells - 2)), cells)
        text, note = pad(sanitize_line(row.text), self._text_cells), sanitize_line(row.note)
        if self._leaves_notes_out(width):
            room = width - cell_len(group)
            name = pad(fit(text.rstrip(), room), min(room, self._text_cells))
            return (group, "muted"), (name, ""), (fit(row.key, room - cell_len(name)), "accent")
        key = f"  {row.key}" if row.key else ""
        room = width - cell_len(group) - cell_len(text) - cell_len(key)
        note = pad(fit(note, max(0, room)), max(0, room))
        return (group, "muted"), (fit(text, max(0, width - cell_len(group) - cell_len(key))), ""), (note, "muted"), (key, "")

    def about(self, row: Choice | None) -> tuple[str, Sequence[Command]]:
        """Return what is said of all choices."""
        if row is not None:
            self._marked(row.id)
        width = self.table.scrollable_content_region.width - BAR_CELLS
        is_described = bool(row and not self._note and self._leaves_notes_out(width))
        self.box.set_class(is_described, "describes")
        return row.note if row is not None and is_described else self._note, self.verbs()

    def act(self) -> None:
        """Choose the marked line."""
        if self.current is not None:
            _ = self.dismiss(self.current.id)
