"""What a session changed: a list by step or by file, the difference beside it, and the ways back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import Changes, Restoration
from lmtui.tui.change_views import ChangeSources, ChangeView, Listed
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.diff_view import DiffView, split_word
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.lines.step_list import StepList, StepRow
from lmtui.tui.screens.diff_screen import DiffScreen
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Bar
from lmtui.tui.widgets.fit import Part
from lmtui.tui.widgets.verbs import Verbs

NO_CHANGES = "undo is not available here: no checkpoints can be made in this session"
_NO_TEXT = "No text to compare: the file is binary, empty or too large."
RESTORING = frozenset({"changes.restore", "changes.restore_hunk"})
STEPWISE = frozenset({"changes.steps", "changes.turns"})

Restore = Callable[[Awaitable[Restoration], str], Awaitable[bool]]


class ChangesScreen(DiffScreen):
    """Lists changes.  `restore` asks about a plan and applies it; `path` is where the cursor stands at first."""

    CSS_PATH = "../dialogs.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CHANGES), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.CHANGES

    def __init__(self, sources: ChangeSources, restore: Restore, path: str = "", view: ChangeView | None = None) -> None:
        super().__init__(DiffView(id="changes-diff"), AskLine("changes-ask"))
        self._sources, self._restore, self._path = sources, restore, path
        self._changes = sources.changes
        self._view = view or (ChangeView.SESSION if sources.changes is None else ChangeView.STEPS)
        self._head = Bar(id="changes-head")
        self._list = StepList(id="changes-list")
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
        self._load()

    def action_changes_view(self, name: str) -> None:
        """Show the changes of steps, of turns, of the session, or against git."""
        view = ChangeView[name.upper()]
        if self._changes is not None or view in (ChangeView.SESSION, ChangeView.GIT):
            self._view = view
            self._list.cursor = 0
            self._say("")
            self._show_verbs()
            self._load()

    def action_changes_by_file(self) -> None:
        """List the session's changes the other way."""
        self.action_changes_view("steps" if self._view is ChangeView.SESSION else "session")

    def action_changes_next(self) -> None:
        """Go to the next row."""
        self._list.move_cursor(1)

    def action_changes_previous(self) -> None:
        """Go to the row before."""
        self._list.move_cursor(-1)

    def action_changes_fold(self) -> None:
        """Show all equal lines, or leave them out."""
        self.run_worker(self._fold(), group="changes-fold", exclusive=True)

    async def _fold(self) -> None:
        row, files = self._list.current, self._sources.files
        if self.diff.has_folds or row is None or files is None or self._view not in (ChangeView.SESSION, ChangeView.GIT):
            self.diff.toggle_folds()
            return
        try:
            content = await files.read(row.path)
        except LmtuiError:
            content = None
        lines = content.data.decode("utf-8", "replace").split("\n") if content is not None else []
        if self.diff.fill_in(lines):
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
        self._put_back(self.diff.current_hunk - 1)

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
            listed = Listed([], ()) if view is ChangeView.GIT else self._sources.told_only()
        total = listed.total
        added, removed = sum(each.added_lines for each in total), sum(each.removed_lines for each in total)
        self._counts = f"{counted(len(total), 'file')}  +{added} {MINUS}{removed} {view.value[1]}"
        if self._path:
            self._list.cursor = next((at for at, row in enumerate(listed.rows) if row.path == self._path), 0)
            self._path = ""
        self._list.show(listed.rows)
        self.draw_head()

    def draw_head(self) -> None:
        """Say what is shown, how much, and which match one is at."""
        found = self.diff.match_text
        right = [Part(found, "$accent" if found[:1].isdigit() else "$warning")] if found else []
        left = [Part("CHANGES", "bold"), Part(self._view.value[0], "$text-muted", 2)]
        self._head.show(left, [*right, Part(self._counts, "$text-muted", 1)])

    @on(DiffView.LaidOut)
    def _show_verbs(self) -> None:
        left_out = RESTORING | STEPWISE if self._changes is None else RESTORING if self._view is ChangeView.GIT else frozenset()
        word = split_word(is_split=self.diff.is_split)
        shown = [
            replace(each, hint=word) if each.id == "changes.split" else each
            for each in of_scope(Scope.CHANGES)
            if each.id not in left_out
        ]
        self._verbs.show([*shown, closing()])

    @on(StepList.Marked)
    def _marked(self, event: StepList.Marked) -> None:
        row = self._list.current
        self.diff.empty_text = _NO_TEXT if row is not None else "There is nothing to compare."
        self.diff.show_patches(patches_of(row.changes) if row is not None else ())
        if event.is_chosen:
            self.diff.focus()

    def _say(self, text: str, style: str = "$warning") -> None:
        self._note.display = bool(text)
        self._note.update(Content.styled(clean_line(text), style))
