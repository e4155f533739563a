"""The batch screen: lists tasks, and opens the review of their changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import work
from textual.binding import BindingType

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.times import time_text
from lmtui.features.batch.commands import SCOPE
from lmtui.features.batch.values import GOOD, NO_BATCH, BatchState, TaskResult, WorkspaceBatches
from lmtui.tui.commands import Command, Scope, bindings
from lmtui.tui.lines.styled_text import Line, Span, fit, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.screens.effect_review import EffectReviewScreen
from lmtui.tui.workbench_api import FeatureController, Handler, WorkbenchApi

_LOOK_S, _MOST_LINES = 2.0, 5
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
    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.APP)
    NAME, HEADING, SCOPE, CHOOSING, FILTER = "batch", "Batch", SCOPE, "review", "task or file"

    def __init__(
        self,
        batches: WorkspaceBatches,
        words: str,
        workbench: WorkbenchApi,
        open_session: Callable[[str], object],
    ) -> None:
        super().__init__()
        self._batches, self._words, self._workbench, self._open_session = batches, words, workbench, open_session
        self._state = BatchState("")
        self.noun = "task"

    def _session_id(self) -> str:
        active = self._workbench.active
        return active.session.id if active is not None else ""

    @work(group="batch", exclusive=True)
    async def on_mount(self) -> None:
        with self.showing_errors():
            self._state = BatchState(await self._batches.open(self._words, self._session_id()))
            await self._read()
            _ = self.set_interval(_LOOK_S, self._reload)

    def _reload(self) -> None:
        self.run_worker(self._read(), group="batch", exclusive=True)

    async def _read(self) -> None:
        found = self._state
        with self.showing_errors():
            found = await self._batches.read(self._state.path)
        if found == self._state:
            self.table.redraw()  # for the running times
            return
        self._state = found
        left = sum(row.is_open for row in found.rows)
        self.box.count(found.summary if not found.progress else f"{left} to review" if left else "")
        self.box.show_head(sanitize("\n".join(found.progress.split("\n")[:_MOST_LINES])))
        self.show(found.rows, at=self.current.id if self.current else "")

    def key(self, row: TaskResult) -> str:
        """Return the task's id."""
        return row.id

    def text(self, row: TaskResult) -> str:
        """Return its text and files, for the filter."""
        return " ".join((row.id, row.task, *row.files))

    def line(self, row: TaskResult, width: int) -> Line:
        """Return a task in aligned columns."""
        sign, style = _SIGNS.get(row.status, ("✗", "bad"))
        state = row.decision or ("overlaps" if row.id in self._state.overlaps and row.is_open else row.status or "waiting")
        if since_s := self._state.running.get(row.id):
            sign, style, state = "▸", "accent", f"for {time_text(self._workbench.now().timestamp() - since_s)}"
        room = max(10, width - 3 - 8 - 14 - 15)
        lines = f"+{row.added} −{row.removed}" if row.diff else ""
        return (
            (f" {sign} ", style),
            (pad(fit(sanitize_line(row.id), 7), 8), "muted"),
            (pad(fit(sanitize_line(row.task), room), room), ""),
            (pad(lines, 14), "muted"),
            (fit(state, 15), "warn" if state == "overlaps" else "muted"),
        )

    def about(self, row: TaskResult | None) -> tuple[str, Sequence[Command]]:
        """Return the details of a task, and the commands for it."""
        if row is None:
            return NO_BATCH, ()
        overlaps = self._state.overlaps.get(row.id, ())
        parts = [
            "running" if row.id in self._state.running else row.status or "waiting",
            f"in {row.elapsed_s:.0f} s" if row.elapsed_s else "",
            pluralize(len(row.files), "file") if row.files else "",
            f"also changed by {', '.join(overlaps[:5])}" if overlaps else "",
            sanitize_line(row.error)[:200],
        ]
        is_running = bool(self._state.progress)
        left = set() if is_running else {"batch.halt"}
        left |= {"batch.resume"} if is_running or all(each.status for each in self._state.rows) else set()
        left |= set() if row.diff else {"batch.accept", "batch.reject"}
        left |= set() if row.diff or row.session else {"picker.open"}
        left |= set() if self._state.mergeable else {"batch.accept_all"}
        return " · ".join(filter(None, parts)), self.verbs(*left)

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
            _ = self.app.push_screen(EffectReviewScreen(review, f"Task {row.id}", about), lambda _: self._reload())

    def action_batch_accept(self) -> None:
        """Accept all changes of the selected task; ask first if other tasks changed the same files."""
        row = self.current
        if row is None or not row.diff:
            return
        if row.is_accepted:
            self.say(f"task {row.id} is already accepted; /undo reverts it", "$warning")
        elif overlaps := self._state.overlaps.get(row.id):
            text = f"Other tasks changed the same files: {', '.join(overlaps)}. Their changes may then no longer apply."
            self._ask([row], Confirm(f"Accept task {row.id}?", text))
        else:
            self._accept([row])

    def action_batch_accept_all(self) -> None:
        """Accept all green tasks that do not overlap with others, after confirmation."""
        rows = self._state.mergeable
        if not rows:
            self.say("no task can be accepted without review: review them one by one", "$warning")
            return
        what = "Their checks pass" if rows[0].status == "green" else "They are unverified, because there are no checks"
        left = sum(row.is_open for row in self._state.rows) - len(rows)
        rest = f" {left} more need review." if left else ""
        text = f"{what}, and no other task changed the same files.{rest}"
        self._ask(rows, Confirm(f"Accept {pluralize(len(rows), 'task')}?", text))

    @work(group="batch-ask")
    async def _ask(self, rows: Sequence[TaskResult], question: Confirm) -> None:
        if await self.app.push_screen_wait(question):
            self._accept(rows)

    @work(group="batch-accept", exclusive=True)  # a new one ends the one before, but only once it is sure
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
        await self._read()
        if problems:
            more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
            self.say(f"{'; '.join(problems[:3])}{more}", "$error")
            return
        what = f"task {rows[0].id} is" if len(rows) == 1 else f"{len(rows)} tasks are"
        self.say("; ".join(notes[:3]) or f"{what} accepted; /undo reverts {'it' if len(rows) == 1 else 'them'}", "$success")

    def action_batch_reject(self) -> None:
        """Reject the changes of the selected task."""
        row = self.current
        if row is not None and row.diff:
            if row.is_accepted:
                self.say(f"task {row.id} is already accepted; /undo reverts it", "$warning")
                return
            self._do(self._batches.reject(self._state.path, row.id))

    def action_batch_resume(self) -> None:
        """Continue the batch in the background."""
        self._do(self._batches.resume(self._state.path, self._session_id()))

    def action_batch_halt(self) -> None:
        """Stop the batch in the background."""
        self._do(self._batches.halt(self._state.path))

    @work(group="batch-work")
    async def _do(self, change: Awaitable[None]) -> None:
        with self.showing_errors():
            await change
            await self._read()


class BatchController(FeatureController):
    """Handles `/batch`."""

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of the command."""
        return {"batch.show": self._show}

    def _show(self, path: str) -> None:
        batches = self.host.extensions[WorkspaceBatches]
        _ = self.workbench.app.push_screen(BatchList(batches, path.strip(), self.workbench, self.open_session))
