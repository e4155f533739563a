"""Sessions as rows in aligned columns: state, title, model, last line, age, changed files, tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Unpack

from textual.message import Message

from lmtui.core.clean import clean_line
from lmtui.core.events import TurnReason
from lmtui.core.sessions import SessionSummary
from lmtui.core.times import LocalZone, moment_text
from lmtui.tui.lines.row_view import RowView
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, fit, pad, restyle
from lmtui.tui.wording import age_text, tokens_text

STATES = {
    "waits": ("◐", "warn"),
    "writing": ("●", "accent"),
    "done": ("✓", "good"),
    "waiting": ("⏲", "muted"),
    "interrupted": ("–", "muted"),
    "error": ("✗", "bad"),
    "limit": ("✗", "warn"),
    "blocked": ("✗", "warn"),
    "new": ("○", "muted"),
}
MARK = "★"
_AGE_CELLS = 7
_FILES_CELLS = 7
_TOKENS_CELLS = 8
_SIGNS_CELLS = 4
_TITLE_SHARE, _MODEL_SHARE = 0.42, 0.24
_LEAST_TITLE, _MOST_TITLE = 12, 44
_MOST_MODEL = 22
_TIGHT_WIDTH = 60


_ENDS: Line = ((f"{'age':>{_AGE_CELLS}}{'files':>{_FILES_CELLS}}{'tokens':>{_TOKENS_CELLS}}", "muted"),)


class SessionList(RowView, can_focus=True, inherit_bindings=False):
    """Shows sessions; the cursor stays on its session whatever comes before it."""

    empty_text = "no session yet"

    class Chosen(Message):
        """The session under the cursor is wanted."""

    def __init__(self, now: Callable[[], datetime], marks: Collection[str], **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._now, self._marks = now, marks
        self._words: list[str] = []
        self.rows: Sequence[SessionSummary] = ()

    @property
    def current(self) -> SessionSummary | None:
        """Return the session under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def shows_cursor(self) -> bool:
        """Tell that the cursor is always drawn: what is typed into the search acts on it too."""
        return True

    def show(self, rows: Sequence[SessionSummary], words: str = "", at: str = "") -> None:
        """Show rows, with the cursor on the session `at` (else where it was); `words` are marked in what was found."""
        wanted = at or (self.current.id if self.current is not None else "")
        self.rows, self._words = rows, words.casefold().split()
        place = next((index for index, row in enumerate(rows) if row.id == wanted), min(self.cursor, len(rows) - 1))
        self.cursor = max(0, place)
        self.redraw()
        if self.size and self.is_running:
            self.call_after_refresh(self.put_cursor, self.cursor)

    def line_total(self) -> int:
        """Return how many sessions there are."""
        return len(self.rows)

    def row_at(self, row: int) -> Line:
        """Return a row, with the words that were searched marked."""
        summary = self.rows[row]
        found = session_row(summary, self._now(), self.content_width, is_marked=summary.id in self._marks)
        text = "".join(part for part, _ in found).casefold()
        for word in self._words if summary.match else ():
            at = text.find(word)
            if at >= 0:
                found = restyle(found, at, at + len(word), "match")
        return found

    def choose(self) -> None:
        """Tell that the row was acted on."""
        if self.rows:
            self.post_message(self.Chosen())


def columns(width: int) -> tuple[int, int, int]:
    """Return how wide title, model and last line are; where there is little room, only the title is there."""
    rest = max(_LEAST_TITLE, width - _SIGNS_CELLS - _AGE_CELLS - _FILES_CELLS - _TOKENS_CELLS - 2)
    is_tight = width < _TIGHT_WIDTH
    title = min(_MOST_TITLE, max(_LEAST_TITLE, rest if is_tight else int(rest * _TITLE_SHARE)))
    model = 0 if is_tight else min(_MOST_MODEL, int(rest * _MODEL_SHARE))
    return title, model, rest - title - model


def head_row(width: int, *, is_search: bool = False) -> Line:
    """Return the names of the columns; in a search, what was found takes the room of model and last line."""
    title, model, last = columns(width)
    if is_search:
        return ((f"{'':4}{'title':<{title}} {fit('found in', model + last + 1):<{model + last + 1}}", "muted"), *_ENDS)
    names = f"{'':4}{'title':<{title}} {fit('model', model):<{model}} {fit('last line', last):<{last}}"
    return ((names, "muted"), *_ENDS)


def session_row(summary: SessionSummary, now: datetime, width: int, *, is_marked: bool = False) -> Line:
    """Return one session in columns; an open one stands out, one that another lmtui holds says so."""
    sign, role = STATES.get(summary.state, STATES["new"])
    title_cells, model_cells, last_cells = columns(width)
    title = fit(clean_line(summary.title) or "(nothing said yet)", title_cells)
    state = TurnReason.LIMIT.words if summary.state == TurnReason.LIMIT else summary.state
    last = f"{state}: {clean_line(summary.last_line)}" if summary.last_line else state
    if summary.wakes is not None:
        last = f"wakes {moment_text(summary.wakes, now, LocalZone())}"
    if summary.is_elsewhere:
        last = "open in another lmtui"
    middle: Line = (
        (f" {pad(fit(clean_line(summary.model), model_cells), model_cells)} ", "muted"),
        (pad(fit(last, last_cells), last_cells), role if summary.state == "waits" else "muted"),
    )
    if summary.match:
        cells = model_cells + last_cells + 1
        middle = ((f" {pad(fit(clean_line(summary.match), cells), cells)}", ""),)
    return (
        (f"{sign} ", role),
        (f"{MARK if is_marked else ' '} ", "accent"),
        (pad(title, title_cells), "strong" if summary.is_open else ""),
        *middle,
        (f"{age_text(summary.updated, now):>{_AGE_CELLS}}", "muted"),
        (f"{summary.changed_files or '–':>{_FILES_CELLS}}", "muted"),
        (f"{tokens_text(summary.tokens) if summary.tokens else '–':>{_TOKENS_CELLS}}", "muted"),
    )
