"""The batch screen: lists tasks, and opens the review of their changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.times import time_text
from lmtui.features.batch.values import GOOD, NO_BATCH, BatchState, TaskResult, WorkspaceBatches
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Span
from lmtui.tui.modals.effect_question import EffectReviewScreen
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.workbench_api import FeatureController, Handler, WorkbenchApi

LOOK_S, _MOST_LINES = 2.0, 5
_WORDS = {"green": "pass", "red": "checks fail", "": "waiting"}
_SIGNS: dict[str, Span] = {"green": ("✓", "good"), "unverified": ("✓", "good"), "unchanged": ("–", "muted"), "": ("○", "muted")}


class BatchList(ListDialog[TaskResult, None]):
    """Lists the tasks of a batch.

    Args:
        batches: the port.
        words: a batch folder, arguments that start a batch, or empty for the newest.
        workbench: its active session gets the changes.
        open_session: brings a session to the front.
    """

    DEFAULT_CSS = "BatchList .list-head { text-wrap: nowrap; text-overflow: ellipsis; }"  # its numbers grow
    NAME, HEADING, TAB, CHOOSING, FILTER = "batch", "Batch", "batch.show", "review", "task or file"
    COLUMNS = (Column(most=1), Column(most=7), Column("task"), Column("lines", 14, is_right=True), Column("result", 18))
    VERBS = (("yes", "accept"), ("yes_all", "accept all"), ("no", "reject"), ("run", "resume"), ("stop", "stop"))

    def __init__(
        self, batches: WorkspaceBatches, words: str, workbench: WorkbenchApi, open_session: Callable[[str], object]
    ) -> None:
        super().__init__()
        self._batches, self._words, self._workbench, self._open_session = batches, words, workbench, open_session
        self._state = BatchState("")
        self._is_open = False
        self.noun = "task"

    def _session_id(self) -> str:
        active = self._workbench.active
        return active.session.id if active is not None else ""

    async def rows(self) -> Sequence[TaskResult]:
        """Read the batch; the first time, find or start it."""
        if not self._is_open:
            self._is_open = True
            self._state = BatchState(await self._batches.open(self._words, self._session_id()))
            self.set_interval(LOOK_S, self.reload)  # not before: what begins is not broken off
        self._state = found = await self._batches.read(self._state.path)
        left = sum(row.is_open for row in found.rows)
        self.box.count(found.summary if not found.progress else f"{left} to review" if left else "")
        self.box.show_head(sanitize("\n".join(found.progress.split("\n")[:_MOST_LINES])))
        return found.rows

    def key(self, row: TaskResult) -> str:
        """Return the task's id."""
        return row.id

    def text(self, row: TaskResult) -> str:
        """Return its text and files, for the filter."""
        return " ".join((row.id, row.task, *row.files))

    def cells(self, row: TaskResult) -> Sequence[Cell]:
        """Return a task in columns."""
        sign = _SIGNS.get(row.status, ("✗", "bad"))
        others = self._state.overlaps.get(row.id, ()) if row.is_open else ()
        state = f"conflicts with {', '.join(others)}" if others else row.decision or _WORDS.get(row.status, row.status)
        if since_s := self._state.running.get(row.id):
            sign, state = ("▸", "accent"), f"for {time_text(self._workbench.now().timestamp() - since_s)}"
        lines = f"+{row.added} −{row.removed}" if row.diff else ""
        result: Span = (state, "warn" if others else "muted")
        return sign, (sanitize_line(row.id), "muted"), sanitize_line(row.task), (lines, "muted"), result

    def about(self, row: TaskResult | None) -> tuple[str, Sequence[Command]]:
        """Return the details of a task, and the commands for it."""
        if row is None:
            return NO_BATCH, ()
        overlaps = self._state.overlaps.get(row.id, ())
        parts = [
            "running" if row.id in self._state.running else _WORDS.get(row.status, row.status),
            f"in {row.elapsed_s:.0f} s" if row.elapsed_s else "",
            pluralize(len(row.files), "file") if row.files else "",
            f"also changed by {', '.join(overlaps[:5])}" if overlaps else "",
            sanitize_line(row.error)[:200],
        ]
        is_running = bool(self._state.progress)
        left = set() if is_running else {"stop"}
        left |= {"run"} if is_running or all(each.status for each in self._state.rows) else set()
        left |= set() if row.diff else {"yes", "no"}
        left |= set() if row.diff or row.session else {"picker.open"}
        left |= set() if self._state.mergeable else {"yes_all"}
        verbs = self.verbs(*left)
        if not row.diff and row.session:
            verbs = [replace(each, hint="read the answer") if each.id == "picker.open" else each for each in verbs]
        return " · ".join(filter(None, parts)), verbs

    def act(self) -> None:
        """Review the changes of the selected task; of one without changes, read what was said."""
        row = self.current
        if row is None or not (row.diff or row.session):
            self.say("this task has no changes", "$warning")
            return
        if not row.diff:
            _ = self.dismiss(None)
            self._open_session(row.session)
            return
        with self.showing_errors():
            review = self._batches.review(self._state.path, row.id, self._session_id())
            about = row.decision or ("" if row.status in GOOD else f"ended {row.status}")
            _ = self.app.push_screen(EffectReviewScreen(review, f"Task {row.id}", about), lambda _: self.reload())

    async def do_yes(self, row: TaskResult) -> None:
        """Accept all changes of a task; ask first if other tasks changed the same files."""
        overlaps = self._state.overlaps.get(row.id)
        text = f"Other tasks changed the same files: {', '.join(overlaps or ())}. Their changes may then no longer apply."
        if row.is_accepted:
            self.say(f"task {row.id} is already accepted; /undo reverts it", "$warning")
        elif not overlaps or await self.app.push_screen_wait(Confirm(f"Accept task {row.id}?", text)):
            await self._accept([row])

    async def do_yes_all(self, _: TaskResult) -> None:
        """Accept all tasks that pass and do not overlap with others, after a question."""
        rows = self._state.mergeable
        what = "Their checks pass" if rows[0].status == "green" else "They are unverified, because there are no checks"
        left = sum(row.is_open for row in self._state.rows) - len(rows)
        rest = f" {left} more need review." if left else ""
        question = Confirm(
            f"Accept {pluralize(len(rows), 'task')}?", f"{what}, and no other task changed the same files.{rest}"
        )
        if await self.app.push_screen_wait(question):
            await self._accept(rows)

    async def _accept(self, rows: Sequence[TaskResult]) -> None:
        problems: list[str] = []
        notes: list[str] = []
        for number, row in enumerate(rows, 1):
            if len(rows) > 1:
                self.say(f"accepting {number} of {len(rows)}", "$text-muted")
            try:
                notes += await self._batches.review(self._state.path, row.id, self._session_id()).keep(None)
            except LmtuiError as error:
                problems.append(f"task {row.id}: {error.full_text()} {self._state.why_not(row)}".rstrip())
        if problems:
            more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
            self.say(f"{'; '.join(problems[:3])}{more}", "$error")
            return
        what = f"task {rows[0].id} is" if len(rows) == 1 else f"{len(rows)} tasks are"
        self.say("; ".join(notes[:3]) or f"{what} accepted; /undo reverts {'it' if len(rows) == 1 else 'them'}", "$success")

    async def do_no(self, row: TaskResult) -> None:
        """Reject the changes of a task."""
        if row.is_accepted:
            self.say(f"task {row.id} is already accepted; /undo reverts it", "$warning")
        else:
            await self._batches.reject(self._state.path, row.id)

    async def do_run(self, _: TaskResult) -> None:
        """Continue the batch in the background."""
        await self._batches.resume(self._state.path, self._session_id())

    async def do_stop(self, _: TaskResult) -> None:
        """Stop the batch in the background."""
        await self._batches.halt(self._state.path)


class BatchController(FeatureController):
    """Handles `/batch`."""

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of the command."""
        return {"batch.show": self._show}

    def _show(self, path: str) -> None:
        batches = self.host.extensions[WorkspaceBatches]
        _ = self.workbench.app.push_screen(BatchList(batches, path.strip(), self.workbench, self.open_session))
