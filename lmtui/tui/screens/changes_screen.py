"""What a session changed: a list by step or file, the difference, and the ways back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import Enum
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget

from lmtui.commands.work_commands import NO_CHANGES
from lmtui.core.errors import LmtuiError
from lmtui.core.events import (
    ROOT,
    Envelope,
    FilesChanged,
    FilesRestored,
    MessageAdded,
    Rewound,
    TurnEnded,
    TurnStarted,
)
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.workspace import Changes, FileChange, Files, Restoration, Step
from lmtui.tui.commands import Scope, bindings, command, of_scope
from lmtui.tui.lines.calls import CHANGE_SIGNS, CallState
from lmtui.tui.lines.diff_view import DiffView, split_word
from lmtui.tui.lines.patch import Hunk, changed_lines, counts_line, counts_text, patches_of
from lmtui.tui.lines.styled_text import Line, fit, fit_path, row, width_of
from lmtui.tui.lines.table import Table
from lmtui.tui.screens.beside import BesideChat, keys_of, tab_part
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import HEIGHTS, Bar, Part, Spinner
from lmtui.tui.widgets.columns import Columns
from lmtui.tui.widgets.panes import changed_line, counts_content
from lmtui.tui.wording import call_words


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
    return found


_TIGHT_WIDTH = 39


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
    """Return the turns that changed something, newest first, with a row for each file."""
    found: list[StepRow] = []
    for turn, changes in reversed(list(turns)):
        if changes:
            found.append(StepRow(tuple(changes), "", None, turn_id=turn.id, title=turn.text.strip(), time=turn.time))
            found += [replace(row, is_inside=True, turn_id=turn.id) for row in rows_by_file(changes)]
    return found


def row_line(found: StepRow, width: int, zone: tzinfo | None = None) -> Line:
    """Return a row: a file as everywhere, or the time and work of a step or turn; and the counts."""
    step = found.step if not found.is_inside else None
    is_undone = step is not None and step.is_undone
    sign = CallState.UNDONE.value[0] if is_undone else "!" if step is not None and not step.can_undo else ""
    if step is None and not found.title:
        letter, role = CHANGE_SIGNS[found.changes[0].kind]
        lead: Line = (("  " if found.is_inside else "", ""), (f"{letter} ", role))
        return (*lead, *changed_line(found.changes[0], width - width_of(lead)))
    added, removed = (sum(getattr(change, name) for change in found.changes) for name in ("added_lines", "removed_lines"))
    time = step.time if step is not None else found.time
    clock = f"{time.astimezone(zone):%H:%M} " if time is not None and width >= _TIGHT_WIDTH else ""
    what = " ".join(call_words(step.tool, found.path or step.title)) if step is not None else found.title
    right: Line = (*counts_line(added, removed), (f" {sign:<1}", "warn"))
    room = max(6, width - len(clock) - width_of(right) - 2)
    return row(((clock, "muted"), (fit(sanitize_path(what), room), "muted" if is_undone else "")), right, width)


class ChangeView(Enum):
    """A way to look, with its words."""

    STEPS = "by step"
    TURNS = "by turn"
    SESSION = "the whole session"
    GIT = "against the last commit"


Listed = tuple[list[StepRow], Sequence[FileChange]]
"""The rows of a list of changes, and all that changed."""


@dataclass(frozen=True, slots=True)
class ChangeSources:
    """Where changes come from.  Without `changes` there is only what events recorded; without `files` no git."""

    changes: Changes | None
    recorded: Mapping[str, FileChange]
    files: Files | None = None
    turns: Sequence[Turn] = ()
    is_running: Callable[[], bool] = lambda: False
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def listed(self, view: ChangeView) -> Listed:
        """Return what a view shows.

        Raises:
            SandboxError: it cannot be had; the text says why.
        """
        if view is ChangeView.GIT:
            against = await self.files.git_changes() if self.files is not None else ()
            return rows_by_file(against), against
        if self.changes is None:
            return self.recorded_only()
        total = await self.changes.total()
        if view is ChangeView.SESSION:
            return rows_by_file(total), total
        if view is ChangeView.TURNS:
            changed = {step.turn_id for step in self.changes.steps()}
            turns = [(turn, await self.changes.of_turn(turn.id)) for turn in self.turns if turn.id in changed]
            return rows_by_turn(turns), total
        return rows_by_step(self.changes.steps()), total

    def recorded_only(self) -> Listed:
        """Return what events recorded: all there is where nothing else can be had."""
        total = tuple(self.recorded.values())
        return rows_by_step(self.changes.steps()) if self.changes is not None else rows_by_file(total), total

    def is_newest_turn(self, rows: Sequence[StepRow]) -> bool:
        """Tell whether the first of some rows is the newest turn."""
        return bool(rows and self.turns) and rows[0].turn_id == self.turns[-1].id

    def steps_of(self, row: StepRow) -> list[Step]:
        """Return the steps of its turn or session that changed a row's file, oldest first."""
        steps = self.changes.steps() if self.changes is not None else ()
        found = [step for step in steps if row.turn_id in ("", step.turn_id)]
        return [step for step in found if any(change.path == row.path for change in step.changes)]

    def step_of_hunk(self, row: StepRow, number: int) -> tuple[Step, int] | None:
        """Return the step that last made just the change of a row's hunk, and which hunk it is."""
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
TICK_S = 0.25
NAME_CELLS = 40
WIDTHS_OF_LISTS = [(0, "-narrow"), (100, "-wide")]

Restore = Callable[[Awaitable[Restoration], str], Awaitable[bool]]


def restoration(
    sources: ChangeSources, view: ChangeView, row: StepRow, hunk: int | None
) -> tuple[Awaitable[Restoration], str] | str:
    """Return what takes back a row's file or a hunk of it, with its name; else why nothing does."""
    if view is ChangeView.GIT:
        return f"nothing goes back to a commit here: run git restore -- {row.path} yourself, or take a step back"
    if not row.path:
        return f"this {'turn' if row.title else 'step'} changed several files: go to one of them first"
    if hunk is not None and hunk < 0:
        return "there is no hunk here"
    assert sources.changes is not None
    steps = [row.step] if row.step is not None else sources.steps_of(row)
    step_id = steps[0].id if steps else ""
    what = row.path if hunk is None else f"hunk {hunk + 1} of {row.path}"
    if hunk is not None and row.step is None:
        found = sources.step_of_hunk(row, hunk)
        if found is None:
            return "Several steps made this change. Press ← to see them by step."
        step_id, hunk = found[0].id, found[1]
    return sources.changes.plan_restore(step_id, row.path, hunk), what


class ChangesScreen(BesideChat):
    """Shows all changes of the newest turn, the last edit until the reader scrolls; filling the screen, lists of them."""

    HORIZONTAL_BREAKPOINTS = WIDTHS_OF_LISTS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*keys_of(Scope.CHANGES), *bindings(Scope.DIFF)]

    SCOPE: ClassVar[Scope] = Scope.CHANGES
    tab = "Changes"

    def __init__(
        self,
        read: Callable[[], ChangeSources],
        restore: Restore,
        comment: Callable[[str], object],
        *,
        path: str = "",
        view: ChangeView | None = None,
        panes: Columns | None = None,
        listen: Callable[[Callable[[Envelope], None]], Callable[[], None]] | None = None,
    ) -> None:
        super().__init__(panes)
        self.diff = DiffView(id="changes-diff")
        self._line, self._comment = AskLine("changes-ask"), comment
        self._read, self._restore, self._path, self._listen = read, restore, path, listen
        self._sources = read()
        self._view = view or (ChangeView.SESSION if self._sources.changes is None else ChangeView.TURNS)
        self._head = Bar(id="changes-head")
        self._list = Table(row_line, id="changes-list")
        self._list.empty_text = self.diff.empty_text = "Reading the changes …"
        self._counts = ""
        self._followed_to = 0

    def content(self) -> Iterable[Widget]:
        """Return the list, the difference and what is said."""
        return self._head, Horizontal(self._list, self.diff, id="changes-body"), self._line, self._said

    def on_mount(self) -> None:
        self.say_below(NO_CHANGES if self._sources.changes is None else "")
        self._load()
        self._ticker = self.set_interval(TICK_S, self.draw_head, pause=not self._sources.is_running())
        if self._listen is not None:
            self.end = self._listen(self._heard)

    def placed(self) -> None:
        """Show the list where there is room for it, else all changes of its first part."""
        (self.diff if self.is_beside else self._list).focus()
        self._show_diff()

    def tab_parts(self) -> list[Part]:
        """Return the tabs of the side pane, or the ways to look while there is a list."""
        if self.is_beside:
            return super().tab_parts()
        names = [view.name for view in ChangeView]
        shown = [tab_part(name.capitalize(), f"changes_view('{name}')", is_here=name == self._view.name) for name in names]
        return [Part("Changes", "bold"), *shown]

    def action_next_tab(self, step: int) -> None:
        """Show another way to look while there is a list, else another tab."""
        views = [*ChangeView]
        if self.is_beside:
            super().action_next_tab(step)
        else:
            self.action_changes_view(views[(views.index(self._view) + step) % len(views)].name)

    def _heard(self, envelope: Envelope) -> None:
        """Show what changed; a reader who did not scroll is taken to it."""
        event = envelope.event
        match event:
            case FilesChanged() | FilesRestored() if self.is_beside:
                if event.files and self._is_following:
                    self._path = event.files[-1]
                self._load()
            case TurnStarted():
                self._ticker.resume()
            case TurnEnded():
                self._ticker.pause()
            case _:
                return
        self.draw_head()

    @property
    def _is_following(self) -> bool:
        return self.diff.scroll_offset.y == self._followed_to

    def action_changes_view(self, name: str) -> None:
        """Show the changes of steps, of turns, of the session, or against git."""
        view = ChangeView[name]
        if self._sources.changes is not None or view in (ChangeView.SESSION, ChangeView.GIT):
            self._view = view
            self._list.cursor.row = 0
            self.say_below("")
            self._load()

    def action_go_to_hunk(self, step: int) -> None:
        """Go to the next hunk, or the one before."""
        self.diff.scroller.go_to_hunk(self.diff.scroller.hunk + step)

    def action_side_step(self, step: int) -> None:
        """Go to the next file of the difference; of one file alone, to the next row of the list."""
        if self.is_beside or len(self.diff.source.layout.file_tops) > 1:
            self.diff.scroller.step_file(step)
        else:
            self._list.cursor.move(step)

    def action_changes_ask(self, what: str) -> None:
        """Ask what to look for in the difference, or what to say about the current hunk."""
        about = self.diff.source.mention_of(self.diff.scroller.hunk)
        if what == "search":
            self._line.ask("search in this difference", self.diff, typed=self.diff.search.find, move=self.diff.search.go)
        elif about:
            self._line.ask(f"comment on {sanitize_line(about)}", self.diff, sent=partial(self._send_comment, about))

    def _send_comment(self, about: str, text: str) -> None:
        if text.strip():
            self._comment(f"{about} {text.strip()}")

    def action_split(self) -> None:
        """Show side by side, or one column."""
        self.diff.toggle_split()

    @on(Table.Chosen)
    def action_changes_open(self) -> None:
        """Go to the difference, or back."""
        (self.diff if self._list.has_focus or self.is_beside else self._list).focus()

    def action_changes_restore(self, what: str) -> None:
        """Ask whether a file goes back to what it was before the step, or the hunk in view is taken back."""
        row, scroller = self._list.current, self.diff.scroller
        hunk = scroller.hunk if scroller.hunk_count else -1
        if self.is_beside:
            path, hunk = self.diff.source.place_of(self.diff.scroller.hunk)
            row = next((each for each in self._list.rows if each.path == path), None)
        if row is not None and self._sources.changes is not None:
            found = restoration(self._sources, self._view, row, hunk if what == "hunk" else None)
            if isinstance(found, str):
                self.say_below(found)
            else:
                self.run_worker(self._ask(*found), group="restore", exclusive=True)

    async def _ask(self, plan: Awaitable[Restoration], what: str) -> None:
        if await self._restore(plan, what):
            self._load()

    @work(group="changes", exclusive=True)
    async def _load(self) -> None:
        view = self._view
        self._sources = self._read()
        try:
            rows, total = await self._sources.listed(view)
        except LmtuiError as error:
            self.say_below(error.full_text(), "$error")
            rows, total = ([], ()) if view is ChangeView.GIT else self._sources.recorded_only()
        added, removed = sum(each.added_lines for each in total), sum(each.removed_lines for each in total)
        files = fit_path(sanitize_path(total[0].path), NAME_CELLS) if len(total) == 1 else pluralize(len(total), "file")
        self._counts = f"{files}  {counts_text(added, removed)}"
        if self._path:
            self._list.cursor.row = next((at for at, row in enumerate(rows) if row.path == self._path), 0)
        self._list.empty_text = "No file was changed."
        self._list.show(rows)
        self.draw_head()

    @on(DiffView.HunkChanged)
    def draw_head(self) -> None:
        """Say what is shown, how much, and which hunk one is at."""
        hunk, hunks = self.diff.scroller.hunk, self.diff.scroller.hunk_count
        place = [Part(f"hunk {hunk + 1} of {hunks}", "$text-muted", 2)] if hunks > 1 else []
        rows = self._list.rows
        if self.is_beside and self._view is ChangeView.TURNS:
            added, removed = changed_lines(self.diff.source.files)
            total, path = len(self.diff.source.layout.file_tops), self.diff.source.place_of(0)[0]
            files = fit_path(path, max(12, self.columns - 32)) if total == 1 and path else pluralize(total, "file")
            shown = Content.assemble((files, "bold"), "  ", counts_content(added, removed))
            words = "This turn" if self._sources.is_newest_turn(rows) else "An earlier turn"
            self._head.show([Part(words, "$text-muted"), Part(shown)] if rows else [], place)
        else:
            self._head.show([Part(self._view.value, "$text-muted", 2)], [*place, Part(self._counts, "$text-muted", 1)])
        is_live = self.is_beside and self._sources.is_running() and self._is_following
        self.draw_tabs([Part(f"{Spinner.sign(self._sources.now())} live", "$accent")] if is_live else [])

    @on(DiffView.LaidOut)
    def _show_verbs(self) -> None:
        left_out = {"changes.restore"} if self._sources.changes is None or self._view is ChangeView.GIT else set()
        left_out |= {"changes.open"} if self.is_beside else set()
        left_out |= set() if self.diff.scroller.hunk_count > 1 else {"changes.hunk"}
        is_in_diff = self.is_beside or len(self.diff.source.layout.file_tops) > 1
        has_next = self.diff.max_scroll_y > 0 if is_in_diff else self._list.cursor.row < len(self._list.rows) - 1
        left_out |= set() if has_next else {"side.step"}
        word = split_word(is_split=self.diff.source.is_split)
        found = of_scope(Scope.CHANGES, Scope.DIFF)
        shown = [replace(each, hint=word) if each.id == "diff.split" else each for each in found]
        shown.insert(0, replace(command("side.step"), hint="next file"))
        self.show_keys(each for each in shown if each.id not in left_out)

    @on(Table.Marked)
    def _show_diff(self) -> None:
        row, rows = self._list.current, self._list.rows
        self.diff.empty_text = _NO_TEXT if row is not None else self._list.empty_text if self.is_beside else _NOTHING
        changes: Sequence[FileChange] = row.changes if row is not None else ()
        if self.is_beside and rows:
            is_grouped = self._view in (ChangeView.STEPS, ChangeView.TURNS)
            changes = rows[0].changes if is_grouped else [each for row in rows for each in row.changes]
        top, is_following = self.diff.scroll_offset.y, self._is_following
        self.diff.show_patches(patches_of(changes))
        if self._path or is_following or not self.is_beside:
            self.diff.scroller.go_to_file(self._path if self.is_beside else "")
            self._followed_to = self.diff.scroll_offset.y
        else:
            self.diff.jump(top)
        self._path = self._path if not rows else ""
        self._show_verbs()
        self.draw_head()
