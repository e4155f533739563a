"""The batches of a workspace, for who reviews their changes; implements `core.batch_values.WorkspaceBatches`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from lmtui.core.batch_values import BatchRow, BatchState, with_overlaps
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import EffectReview
from lmtui.features.batch.batch_folder import BatchFolder, TaskResult
from lmtui.features.service import FeatureHost, WorkspaceExtensions, WorkspaceFeature
from lmtui.paths import batches_dir


class BatchService(WorkspaceFeature):
    """Reads batches and the user's decisions about them."""

    def __init__(self, host: FeatureHost, extensions: WorkspaceExtensions) -> None:
        super().__init__(host, extensions)
        extensions.batches = self

    async def read(self, path: str = "") -> BatchState:
        """Return a batch by its folder, the newest where none is named."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> BatchState:
        folder = Path(path) if path else newest(batches_dir(self.host.workspace))
        if folder is None:
            return BatchState("")
        found = BatchFolder(folder)
        tasks, _ = found.read()
        results = found.results()
        rows = [_row(results.get(task.id, TaskResult(task.id, "", task.title))) for task in tasks]
        return BatchState(str(folder), with_overlaps(rows), found.told())

    def review(self, path: str, task_id: str, session_id: str) -> EffectReview:
        """Return the changes of a task, to be kept in parts."""
        folder = BatchFolder(Path(path))
        title = f"task {sanitize_line(task_id)} of {folder.path.name}"
        patch = folder.patch_of(task_id)
        return self.host.new_attempts().review_patch(patch, title, session_id, partial(self._decide, path, task_id))

    async def reject(self, path: str, task_id: str) -> None:
        """Note that the changes of a task are not wanted."""
        await self._decide(path, task_id, "rejected")

    async def _decide(self, path: str, task_id: str, decision: str) -> None:
        await asyncio.to_thread(decide, BatchFolder(Path(path)), task_id, decision)


def newest(folder: Path) -> Path | None:
    """Return the batch that was begun last, None where there is none.  Blocks."""
    found = sorted(folder.glob("*/tasks.jsonl"))
    return found[-1].parent if found else None


def decide(folder: BatchFolder, task_id: str, decision: str) -> None:
    """Write down what became of the changes of a task.  Blocks.

    Raises:
        UsageError: it has not ended.
    """
    result = folder.results().get(task_id)
    if result is None:
        raise UsageError(f"task {sanitize_line(task_id)} has not ended", "`lmtui batch status` shows how far it is.")
    _ = folder.add(replace(result, decision=decision))


def _row(result: TaskResult) -> BatchRow:
    return BatchRow(
        result.id,
        result.task,
        result.status,
        tuple(result.files),
        result.added,
        result.removed,
        bool(result.diff),
        result.decision,
        (),
        result.elapsed_s,
        result.tries,
        result.error,
    )
