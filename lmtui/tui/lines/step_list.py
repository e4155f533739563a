"""The changes of a session as rows: by step, each with its files, or by file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Unpack

from textual.message import Message

from lmtui.core.clean import clean_line, clean_path
from lmtui.core.sessions import Step
from lmtui.core.workspace import FileChange
from lmtui.tui.lines.calls import CHANGE_SIGNS, CallState
from lmtui.tui.lines.patch import MINUS
from lmtui.tui.lines.row_view import RowView
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, fit, fit_middle, pad, row
from lmtui.tui.turns import Turn

_TOOL_COLUMN = 5
_TIGHT_WIDTH = 40


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row.  `step` is None by file; `path` is empty for a step or a turn of several files, whose own rows follow it.

    A turn has a `title`; `turn_id` names it in its own rows.
    """

    changes: tuple[FileChange, ...]
    path: str = ""
    step: Step | None = None
    is_inside: bool = False
    turn_id: str = ""
    title: str = ""
    time: datetime | None = None


def rows_by_step(steps: Iterable[Step]) -> list[StepRow]:
    """Return the steps, newest first, each of several files with a row for each."""
    found: list[StepRow] = []
    for step in reversed(list(steps)):
        is_one = len(step.changes) == 1
        found.append(StepRow(step.changes, step.changes[0].path if is_one else "", step))
        if not is_one:
            found += [StepRow((change,), change.path, step, is_inside=True) for change in step.changes]
    return found


def rows_by_file(changes: Iterable[FileChange]) -> list[StepRow]:
    """Return the files by path."""
    return [StepRow((change,), change.path) for change in sorted(changes, key=lambda change: change.path)]


def rows_by_turn(turns: Iterable[tuple[Turn, Sequence[FileChange]]]) -> list[StepRow]:
    """Return the turns that changed something, newest first, each with a row for each of its files."""
    found: list[StepRow] = []
    for turn, changes in reversed(list(turns)):
        if changes:
            found.append(StepRow(tuple(changes), "", None, turn_id=turn.id, title=turn.text.strip(), time=turn.time))
            by_path = sorted(changes, key=lambda change: change.path)
            found += [StepRow((change,), change.path, None, is_inside=True, turn_id=turn.id) for change in by_path]
    return found


class StepList(RowView, can_focus=True, inherit_bindings=False):
    """Shows rows and tells which one the cursor is on."""

    empty_text = "No file was changed."

    @dataclass
    class Marked(Message):
        """The cursor came to a row; `is_chosen` if it was acted on."""

        rows: StepList
        is_chosen: bool = False

        @property
        def control(self) -> StepList:
            """Return the list."""
            return self.rows

    def __init__(self, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._zone = zone
        self.rows: Sequence[StepRow] = ()

    @property
    def current(self) -> StepRow | None:
        """Return the row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def show(self, rows: Sequence[StepRow]) -> None:
        """Show rows; the cursor stays where it is if it can."""
        self.rows = rows
        self.cursor = max(0, min(self.cursor, len(rows) - 1))
        self.redraw()
        self.post_message(self.Marked(self))

    def line_total(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def row_at(self, row: int) -> Line:
        """Return a row."""
        return row_line(self.rows[row], self.content_width, self._zone)

    def put_cursor(self, row: int) -> None:
        """Move the cursor and tell."""
        super().put_cursor(row)
        self.post_message(self.Marked(self))

    def choose(self) -> None:
        """Tell that the row was acted on."""
        self.post_message(self.Marked(self, is_chosen=True))


def row_line(found: StepRow, width: int, zone: tzinfo | None = None) -> Line:
    """Return a row: time, tool, what on, counts, and a mark for what was taken back."""
    added = sum(change.added_lines for change in found.changes)
    removed = sum(change.removed_lines for change in found.changes)
    has_text = any(change.diff for change in found.changes) or added or removed
    counts: Line = ((f"+{added}", "good"), (f" {MINUS}{removed}", "bad")) if has_text else (("no text", "muted"),)
    right: Line = (*counts, *_mark(found.step if not found.is_inside else None))
    if found.title:
        clock = f" {found.time.astimezone(zone):%H:%M} " if found.time is not None and width >= _TIGHT_WIDTH else " "
        room = max(6, width - len(clock) - sum(len(text) for text, _ in right) - 2)
        return row(((clock, "muted"), (fit(clean_path(found.title), room), "")), right, width)
    if found.step is None or found.is_inside:
        sign, role = CHANGE_SIGNS[found.changes[0].kind]
        left: Line = (("      " if found.is_inside else " ", ""), (f"{sign} ", role))
        name = fit_middle(clean_path(found.path), max(6, width - sum(len(text) for text, _ in (*left, *right)) - 2))
        return row((*left, (name, "")), right, width)
    step = found.step
    clock = f" {step.time.astimezone(zone):%H:%M}" if width >= _TIGHT_WIDTH else ""
    lead = f"{clock} {pad(fit(clean_line(step.tool), _TOOL_COLUMN), _TOOL_COLUMN)} "
    name = clean_path(found.path) if found.path else clean_path(step.title)
    room = max(6, width - len(lead) - sum(len(text) for text, _ in right) - 2)
    return row(((lead, "muted"), (fit_middle(name, room), "muted" if step.is_undone else "")), right, width)


def _mark(step: Step | None) -> Line:
    if step is None:
        return (("  ", ""),)
    sign = CallState.UNDONE.value[0]
    return ((f" {sign}", "warn"),) if step.is_undone else ((" !", "warn"),) if not step.can_undo else (("  ", ""),)
