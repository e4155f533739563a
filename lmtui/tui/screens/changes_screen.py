"""What a session changed: a list by step or by file, the difference next to it, and the ways back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from enum import Enum
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from lmtui.commands.work_commands import NO_CHANGES
from lmtui.core.errors import LmtuiError
from lmtui.core.events import ROOT, Envelope, MessageAdded, Rewound
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.sessions import Changes, Restoration, Step
from lmtui.core.workspace import FileChange, Files
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.calls import CHANGE_SIGNS, CallState
from lmtui.tui.lines.diff_view import DiffView, split_word
from lmtui.tui.lines.patch import MINUS, Hunk, patches_of
from lmtui.tui.lines.styled_text import Line, fit, fit_path, pad, row
from lmtui.tui.lines.table import Table
from lmtui.tui.screens.beside import BesideChat
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Bar, Part, Verbs
from lmtui.tui.widgets.columns import Columns


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that one can go back to."""

    id: str
    text: str
    time: datetime


def turns_of(history: Sequence[Envelope]) -> list[Turn]:
    """Return the turns of the conversation as it goes now, oldest first; what was rewound is not among them."""
    found: list[Turn] = []
    for envelope in history:
        match envelope.event:
            case MessageAdded(role=Role.USER, agent=agent, turn_id=turn_id, text=text) if agent == ROOT and turn_id:
                if all(turn.id != turn_id for turn in found):
                    found.append(Turn(turn_id, text, envelope.time))
            case Rewound(turn_id=turn_id):
                at = next((at for at, turn in enumerate(found) if turn.id == turn_id), len(found))
                del found[at:]
            case _:
                pass
    return found


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
        return row(((clock, "muted"), (fit(sanitize_path(found.title), room), "")), right, width)
    if found.step is None or found.is_inside:
        sign, role = CHANGE_SIGNS[found.changes[0].kind]
        left: Line = (("      " if found.is_inside else " ", ""), (f"{sign} ", role))
        name = fit_path(sanitize_path(found.path), max(6, width - sum(len(text) for text, _ in (*left, *right)) - 2))
        return row((*left, (name, "")), right, width)
    step = found.step
    clock = f" {step.time.astimezone(zone):%H:%M}" if width >= _TIGHT_WIDTH else ""
    lead = f"{clock} {pad(fit(sanitize_line(step.tool), _TOOL_COLUMN), _TOOL_COLUMN)} "
    room = max(6, width - len(lead) - sum(len(text) for text, _ in right) - 2)
    name = fit_path(sanitize_path(found.path), room) if found.path else fit(sanitize_path(step.title), room)
    return row(((lead, "muted"), (name, "muted" if step.is_undone else "")), right, width)


def _mark(step: Step | None) -> Line:
    if step is None:
        return (("  ", ""),)
    sign = CallState.UNDONE.value[0]
    return ((f" {sign}", "warn"),) if step.is_undone else ((" !", "warn"),) if not step.can_undo else (("  ", ""),)


class ChangeView(Enum):
    """A way to look: its words in the title, and since when it counts."""

    STEPS = ("by step, newest first", "since the session began")
    TURNS = ("by turn, newest first", "since the session began")
    SESSION = ("the whole session, by file", "since the session began")
    GIT = ("against git, by file", "since the last commit")


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a view, and the changes that its counts are about."""

    rows: list[StepRow]
    total: Sequence[FileChange]


@dataclass(frozen=True, slots=True)
class ChangeSources:
    """Where changes come from.  Without `changes` there is only what events recorded; without `files` no git."""

    changes: Changes | None
    recorded: Mapping[str, FileChange]
    files: Files | None = None
    turns: Sequence[Turn] = ()

    async def listed(self, view: ChangeView) -> Listed:
        """Return what a view shows.

        Raises:
            SandboxError: it cannot be had; the text says why.
        """
        if view is ChangeView.GIT:
            against = await self.files.git_changes() if self.files is not None else ()
            return Listed(rows_by_file(against), against)
        if self.changes is None:
            return self.recorded_only()
        total = await self.changes.total()
        if view is ChangeView.SESSION:
            return Listed(rows_by_file(total), total)
        if view is ChangeView.TURNS:
            changed = {step.turn_id for step in self.changes.steps()}
            turns = [(turn, await self.changes.of_turn(turn.id)) for turn in self.turns if turn.id in changed]
            return Listed(rows_by_turn(turns), total)
        return Listed(rows_by_step(self.changes.steps()), total)

    def recorded_only(self) -> Listed:
        """Return what events recorded: all there is where nothing else can be had."""
        total = tuple(self.recorded.values())
        return Listed(rows_by_step(self.changes.steps()) if self.changes is not None else rows_by_file(total), total)

    def steps_of(self, row: StepRow) -> list[Step]:
        """Return the steps that changed a row's file, oldest first: of its turn, or of the session."""
        steps = self.changes.steps() if self.changes is not None else ()
        return [
            step
            for step in steps
            if any(change.path == row.path for change in step.changes) and row.turn_id in ("", step.turn_id)
        ]

    def step_of_hunk(self, row: StepRow, number: int) -> tuple[Step, int] | None:
        """Return the step that last made just the change of a row's hunk, and which hunk of it that is; None for no such."""
        hunks = [hunk for file in patches_of(row.changes) for hunk in file.hunks]
        if not 0 <= number < len(hunks):
            return None
        wanted = _changed(hunks[number])
        for step in reversed(self.steps_of(row)):
            own = [change for change in step.changes if change.path == row.path]
            for index, hunk in enumerate(hunk for file in patches_of(own) for hunk in file.hunks):
                if not step.is_undone and _changed(hunk) == wanted:
                    return step, index
        return None


def _changed(hunk: Hunk) -> list[tuple[str, str]]:
    return [(line.sign, line.text) for line in hunk.lines if line.sign != " "]


_NOTHING = "There is nothing to compare."
_NO_TEXT = "No text to compare: the file is binary, empty or too large."
RESTORING = frozenset({"changes.restore", "changes.restore_hunk"})
STEPWISE = frozenset({"changes.steps", "changes.turns"})

Restore = Callable[[Awaitable[Restoration], str], Awaitable[bool]]


class ChangesScreen(BesideChat):
    """Lists changes.  `restore` asks about a plan and applies it; `path` is where the cursor is at first."""

    CSS_PATH = "../dialogs.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CHANGES), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.CHANGES

    def __init__(
        self,
        sources: ChangeSources,
        restore: Restore,
        path: str = "",
        view: ChangeView | None = None,
        panes: Columns | None = None,
    ) -> None:
        super().__init__(panes)
        self.diff, self.ask_line = DiffView(id="changes-diff"), AskLine("changes-ask")
        self._sources, self._restore, self._path = sources, restore, path
        self._changes = sources.changes
        self._view = view or (ChangeView.SESSION if sources.changes is None else ChangeView.STEPS)
        self._head = Bar(id="changes-head")
        self._list = Table(row_line, id="changes-list")
        self._list.empty_text = self.diff.empty_text = "Reading the changes …"
        self._note = Static("", id="changes-note", markup=False)
        self._verbs = Verbs(id="changes-verbs")
        self._counts = ""

    def compose(self) -> ComposeResult:
        """Lay out the list, the difference and the verbs."""
        yield self._head
        with Horizontal(id="changes-body"):
            yield self._list
            yield self.diff
        yield self.ask_line
        yield self._note
        yield self._verbs

    def on_mount(self) -> None:
        """Show the steps."""
        self._list.focus()
        self._show_verbs()
        self._say(NO_CHANGES if self._changes is None else "")
        self.draw_head()
        self._load()

    def action_changes_view(self, name: str) -> None:
        """Show the changes of steps, of turns, of the session, or against git."""
        view = ChangeView[name.upper()]
        if self._changes is not None or view in (ChangeView.SESSION, ChangeView.GIT):
            self._view = view
            self._list.cursor.row = 0
            self._say("")
            self._show_verbs()
            self._load()

    def action_changes_by_file(self) -> None:
        """List the session's changes the other way."""
        self.action_changes_view("steps" if self._view is ChangeView.SESSION else "session")

    def action_changes_move(self, rows: int) -> None:
        """Move in the list."""
        self._list.cursor.move(rows)

    def action_changes_hunk(self, step: int) -> None:
        """Go to the next change of the difference, or the one before."""
        self.diff.scroller.go_to_hunk(self.diff.scroller.hunk + step)

    def action_changes_file(self, step: int) -> None:
        """Go to the next file of the difference, or the one before."""
        self.diff.scroller.step_file(step)

    def action_changes_search(self) -> None:
        """Ask what to look for in the difference."""
        self.ask_line.ask(self, "search in this difference", move=self.action_changes_match)

    def action_changes_match(self, step: int) -> None:
        """Go to the next match, or the one before."""
        self.diff.step_match(step)
        self.draw_head()

    def typed(self, text: str) -> None:
        """Look for what was typed."""
        self.diff.search(text)
        self.draw_head()

    def done(self, text: str) -> None:
        """Stay at the match."""
        del text
        self.ask_line.close()
        self.diff.focus()

    def given_up(self) -> None:
        """Look for nothing any more."""
        self.typed("")
        self.diff.focus()

    def action_changes_split(self) -> None:
        """Show side by side, or one column."""
        self.diff.toggle_split()

    def action_changes_fold(self) -> None:
        """Show all unchanged lines, or leave them out."""
        self.run_worker(self._fold(), group="changes-fold", exclusive=True)

    async def _fold(self) -> None:
        row, files = self._list.current, self._sources.files
        if self.diff.source.has_folds or row is None or files is None or self._view not in (ChangeView.SESSION, ChangeView.GIT):
            self.diff.toggle_folds()
            return
        try:
            content = await files.read(row.path)
        except LmtuiError:
            content = None
        lines = content.data.decode("utf-8", "replace").split("\n") if content is not None else []
        if self.diff.source.fill_in(lines):
            self.diff.toggle_folds()
        else:
            self._say("the lines between cannot be shown: the file is another by now")

    def action_changes_open(self) -> None:
        """Go to the difference, or back."""
        (self.diff if self._list.has_focus else self._list).focus()

    def action_changes_restore(self) -> None:
        """Ask whether the file goes back to what it was before the step."""
        self._put_back(None)

    def action_changes_restore_hunk(self) -> None:
        """Ask whether the change in view is taken back."""
        self._put_back(self.diff.scroller.current_hunk - 1)

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    def _put_back(self, hunk: int | None) -> None:
        row, changes = self._list.current, self._changes
        if row is None or changes is None:
            return
        if self._view is ChangeView.GIT:
            self._say(f"nothing goes back to a commit here: run git restore -- {row.path} yourself, or take a step back (1)")
        elif not row.path:
            what = "turn" if row.title else "step"
            self._say(f"this {what} changed several files: go to one of them first")
        elif hunk is not None and hunk < 0:
            self._say("there is no hunk here")
        else:
            self._plan(changes, row, hunk)

    def _plan(self, changes: Changes, row: StepRow, hunk: int | None) -> None:
        what = row.path if hunk is None else f"hunk {hunk + 1} of {row.path}"
        steps = [row.step] if row.step is not None else self._sources.steps_of(row)
        step_id = steps[0].id if steps else ""
        if hunk is not None and row.step is None:
            found = self._sources.step_of_hunk(row, hunk)
            if found is None:
                self._say("several steps made this change, or it is taken back already: go to them one by one (1)")
                return
            step_id, hunk = found[0].id, found[1]
        self.run_worker(self._ask(changes.plan_restore(step_id, row.path, hunk), what), group="restore", exclusive=True)

    async def _ask(self, plan: Awaitable[Restoration], what: str) -> None:
        if await self._restore(plan, what):
            self._load()

    def _load(self) -> None:
        self.run_worker(self._fill(), group="changes", exclusive=True)

    async def _fill(self) -> None:
        view = self._view
        try:
            listed = await self._sources.listed(view)
        except LmtuiError as error:
            self._say(error.full_text(), "$error")
            listed = Listed([], ()) if view is ChangeView.GIT else self._sources.recorded_only()
        total = listed.total
        added, removed = sum(each.added_lines for each in total), sum(each.removed_lines for each in total)
        self._counts = f"{pluralize(len(total), 'file')}  +{added} {MINUS}{removed}"
        if self._path:
            self._list.cursor.row = next((at for at, row in enumerate(listed.rows) if row.path == self._path), 0)
            self._path = ""
        self._list.empty_text, self.diff.empty_text = "No file was changed.", _NOTHING
        self._list.show(listed.rows)
        self.draw_head()

    def draw_head(self) -> None:
        """Say what is shown, how much, and which match one is at."""
        found = self.diff.source.matches.text
        right = [Part(found, "$accent" if found[:1].isdigit() else "$warning")] if found else []
        words, since = self._view.value
        left = [Part("Changes", "bold"), Part(words, "$text-muted", 2)]
        since_part = Part(since if self._counts else "", "$text-muted", 3)
        self._head.show(left, [*right, Part(self._counts, "$text-muted", 1), since_part])

    @on(DiffView.LaidOut)
    def _show_verbs(self) -> None:
        left_out = RESTORING | STEPWISE if self._changes is None else RESTORING if self._view is ChangeView.GIT else frozenset()
        word = split_word(is_split=self.diff.source.is_split)
        shown = [
            replace(each, hint=word) if each.id == "changes.split" else each
            for each in of_scope(Scope.CHANGES)
            if each.id not in left_out
        ]
        self._verbs.show([*shown, closing()])

    @on(Table.Marked)
    def _marked(self) -> None:
        row = self._list.current
        self.diff.empty_text = _NO_TEXT if row is not None else _NOTHING
        self.diff.show_patches(patches_of(row.changes) if row is not None else ())

    @on(Table.Chosen)
    def _chosen(self) -> None:
        self.diff.focus()

    def _say(self, text: str, style: str = "$warning") -> None:
        self._note.display = bool(text)
        self._note.update(Content.styled(sanitize_line(text), style))
