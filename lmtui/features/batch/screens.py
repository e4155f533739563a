"""A batch in the app: its tasks, and the review of the changes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from lmtui.core.batch_values import GOOD, NO_BATCH, BatchRow, WorkspaceBatches
from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.workspace import EffectReview
from lmtui.features.batch.commands import SCOPE
from lmtui.tui.commands import Command, Scope, bindings, of_scope
from lmtui.tui.lines.styled_text import Line, fit, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.screens.effect_review import EffectReviewScreen
from lmtui.tui.workbench_api import FeatureController, Handler

_LOOK_S = 2.0
_SIGNS = {"green": ("✓", "good"), "unverified": ("✓", "good"), "unchanged": ("–", "muted"), "": ("○", "muted")}


class BatchList(ListDialog[BatchRow, None]):
    """Lists the tasks of a batch.

    Args:
        batches: the port.
        path: the folder of the batch, empty for the newest.
        review: returns the changes of a task.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(SCOPE), *bindings(Scope.APP)]
    NAME, HEADING, SCOPE, FILTER = "batch", "Batch", SCOPE, "task or file"

    def __init__(self, batches: WorkspaceBatches, path: str, review: Callable[[str, str], EffectReview]) -> None:
        super().__init__()
        self._batches, self._path, self._review = batches, path, review
        self.noun = "task"

    def on_mount(self) -> None:
        """List the tasks, and again while somebody works on them."""
        self._reload()
        _ = self.set_interval(_LOOK_S, self._reload)

    def _reload(self) -> None:
        self.run_worker(self._read(), group="batch", exclusive=True)

    async def _read(self) -> None:
        try:
            found = await self._batches.read(self._path)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return
        self._path = found.path
        self.box.count(found.summary)
        self.box.show_head(sanitize(found.progress))
        self.show(found.rows, at=self.current.id if self.current else "")

    def key(self, row: BatchRow) -> str:
        """Return the task's id."""
        return row.id

    def text(self, row: BatchRow) -> str:
        """Return its words and files."""
        return " ".join((row.id, row.title, *row.files))

    def line(self, row: BatchRow, width: int) -> Line:
        """Return a task in aligned columns."""
        sign, style = _SIGNS.get(row.status, ("✗", "bad"))
        state = row.decision or ("overlaps" if row.overlaps and row.is_open else row.status or "waiting")
        room = max(10, width - 3 - 8 - 14 - 13)
        lines = f"+{row.added} −{row.removed}" if row.has_diff else ""
        return (
            (f" {sign} ", style),
            (pad(fit(sanitize_line(row.id), 7), 8), "muted"),
            (pad(fit(sanitize_line(row.title), room), room), ""),
            (pad(lines, 14), "muted"),
            (fit(state, 13), "warn" if state == "overlaps" else "muted"),
        )

    def about(self, row: BatchRow | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a task."""
        if row is None:
            return NO_BATCH, ()
        parts = [
            row.status or "waiting",
            f"in {row.elapsed_s:.0f} s" if row.elapsed_s else "",
            pluralize(len(row.files), "file") if row.files else "",
            f"also changed by {', '.join(row.overlaps[:5])}" if row.overlaps else "",
            sanitize_line(row.error)[:200],
        ]
        known = of_scope(SCOPE) if row.has_diff else ()
        return " · ".join(filter(None, parts)), known

    def action_batch_review(self) -> None:
        """Review the changes of the marked task."""
        row = self.current
        if row is None or not row.has_diff:
            self.say("this task has no changes", "$warning")
            return
        try:
            review = self._review(self._path, row.id)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return
        about = "" if row.status in GOOD else f"ended {row.status}"
        _ = self.app.push_screen(EffectReviewScreen(review, f"Task {row.id}", about), lambda _: self._reload())

    act = action_batch_review

    def action_batch_accept(self) -> None:
        """Accept all changes of the marked task."""
        row = self.current
        if row is not None and row.has_diff:
            self.run_worker(self._accept(row), group="batch-accept", exclusive=True)

    async def _accept(self, row: BatchRow) -> None:
        try:
            notes = await self._review(self._path, row.id).keep(None)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return
        self._reload()
        self.say("; ".join(notes) or f"task {row.id} is accepted; /undo takes it back", "$success")

    def action_batch_reject(self) -> None:
        """Reject the changes of the marked task."""
        row = self.current
        if row is not None and row.has_diff:
            self.run_worker(self._reject(row), group="batch-reject", exclusive=True)

    async def _reject(self, row: BatchRow) -> None:
        await self._batches.reject(self._path, row.id)
        self._reload()


class BatchController(FeatureController):
    """Answers `/batch`."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"batch.show": self._show}

    def _show(self, path: str) -> None:
        batches = self.host.extensions.batches

        def review(folder: str, task_id: str) -> EffectReview:
            active = self.workbench.active
            return batches.review(folder, task_id, active.session.id if active is not None else "")

        _ = self.workbench.app.push_screen(BatchList(batches, path, review))
