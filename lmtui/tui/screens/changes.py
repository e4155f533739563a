"""What a session changed: a list by step or by file, the difference beside it, and the ways back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import Changes, Restoration
from lmtui.core.workspace import FileChange
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.lines.step_list import StepList, rows_by_file, rows_by_step
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Bar
from lmtui.tui.widgets.fit import Part
from lmtui.tui.widgets.verbs import Verbs
from lmtui.tui.wording import count_text

NO_CHANGES = "undo is not available here: no checkpoints can be made in this session"
RESTORING = frozenset({"changes.restore", "changes.restore_hunk"})

Restore = Callable[[Awaitable[Restoration], str], Awaitable[bool]]


class ChangesScreen(Screen[None]):
    """Lists changes.  `restore` asks about a plan and applies it; without `changes` there is only what events told (`told`)."""

    CSS_PATH = "../dialogs.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CHANGES), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.CHANGES

    def __init__(self, changes: Changes | None, told: Mapping[str, FileChange], restore: Restore, path: str = "") -> None:
        super().__init__()
        self._changes, self._told, self._restore, self._path = changes, dict(told), restore, path
        self._is_by_file = changes is None
        self._head = Bar(id="changes-head")
        self._list, self._diff = StepList(id="changes-list"), DiffView(id="changes-diff")
        self._diff.empty_text = "No text to compare: the file is binary, empty or too large."
        self._note = Static("", id="changes-note", markup=False)
        self._verbs = Verbs(id="changes-verbs")

    def compose(self) -> ComposeResult:
        """Lay out the list, the difference and the verbs."""
        yield self._head
        with Horizontal(id="changes-body"):
            yield self._list
            yield self._diff
        yield self._note
        yield self._verbs

    def on_mount(self) -> None:
        """Show the steps."""
        self._list.focus()
        left_out = RESTORING if self._changes is None else frozenset()
        self._verbs.show([*(each for each in of_scope(Scope.CHANGES) if each.id not in left_out), closing()])
        self._say(NO_CHANGES if self._changes is None else "")
        self._load()

    def action_changes_by_file(self) -> None:
        """List the other way."""
        if self._changes is not None:
            self._is_by_file = not self._is_by_file
            self._load()

    def action_changes_next(self) -> None:
        """Go to the next row."""
        self._list.move_cursor(1)

    def action_changes_previous(self) -> None:
        """Go to the row before."""
        self._list.move_cursor(-1)

    def action_changes_next_hunk(self) -> None:
        """Go to the next change of the difference."""
        self._diff.action_next_hunk()

    def action_changes_previous_hunk(self) -> None:
        """Go to the change before."""
        self._diff.action_previous_hunk()

    def action_changes_split(self) -> None:
        """Show side by side, or one column."""
        self._diff.action_toggle_split()

    def action_changes_open(self) -> None:
        """Go to the difference, or back."""
        (self._diff if self._list.has_focus else self._list).focus()

    def action_changes_restore(self) -> None:
        """Ask whether the file goes back to what it was before the step."""
        self._put_back(None)

    def action_changes_restore_hunk(self) -> None:
        """Ask whether the change in view is taken back."""
        self._put_back(self._diff.current_hunk - 1)

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    def _put_back(self, hunk: int | None) -> None:
        row, changes = self._list.current, self._changes
        if row is None or changes is None:
            return
        if not row.path:
            self._say("this step changed several files: go to one of them first")
        elif row.step is None and hunk is not None:
            self._say("one hunk goes back in the list by step (f)")
        elif hunk is not None and hunk < 0:
            self._say("there is no hunk here")
        else:
            step_id = row.step.id if row.step is not None else _first_step(changes, row.path)
            what = row.path if hunk is None else f"hunk {hunk + 1} of {row.path}"
            self.run_worker(self._ask(changes.plan_restore(step_id, row.path, hunk), what), group="restore", exclusive=True)

    async def _ask(self, plan: Awaitable[Restoration], what: str) -> None:
        if await self._restore(plan, what):
            self._load()

    def _load(self) -> None:
        self.run_worker(self._fill(), group="changes", exclusive=True)

    async def _fill(self) -> None:
        changes = self._changes
        try:
            total = await changes.total() if changes is not None else tuple(self._told.values())
        except LmtuiError as error:
            self._say(error.full_text(), "$error")
            total = tuple(self._told.values())
        by_step = rows_by_step(changes.steps()) if changes is not None else []
        rows = rows_by_file(total) if self._is_by_file else by_step
        added, removed = sum(each.added_lines for each in total), sum(each.removed_lines for each in total)
        counts = f"{count_text(len(total), 'file')}  +{added} {MINUS}{removed} since the session began"
        way = "by file" if self._is_by_file else "by step, newest first"
        self._head.show([Part("CHANGES", "bold"), Part(way, "$text-muted", 2)], [Part(counts, "$text-muted", 1)])
        if self._path:
            self._list.cursor = next((at for at, row in enumerate(rows) if row.path == self._path), 0)
            self._path = ""
        self._list.show(rows)

    @on(StepList.Marked)
    def _marked(self, event: StepList.Marked) -> None:
        row = self._list.current
        self._diff.show_patches(patches_of(row.changes) if row is not None else ())
        if event.is_chosen:
            self._diff.focus()

    def _say(self, text: str, style: str = "$warning") -> None:
        self._note.display = bool(text)
        self._note.update(Content.styled(clean_line(text), style))


def _first_step(changes: Changes, path: str) -> str:
    return next((step.id for step in changes.steps() if any(each.path == path for each in step.changes)), "")
