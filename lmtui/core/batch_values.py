"""Batches as front ends see them: which tasks there are, how they ended, and what became of their changes.  No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import EffectReview

NO_BATCH = 'No batch yet. `lmtui batch --glob "src/*.py" "Fix {file}"` works on many tasks; their changes appear here.'
GOOD = frozenset({"green", "unverified"})


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A task of a batch: how it ended (empty: not yet) and what the user decided about its changes.

    `overlaps` are the ids of other tasks that changed the same files and are not rejected.
    """

    id: str
    title: str
    status: str = ""
    files: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    has_diff: bool = False
    decision: str = ""
    overlaps: tuple[str, ...] = ()
    elapsed_s: float = 0.0
    tries: int = 1
    error: str = ""

    @property
    def is_open(self) -> bool:
        """Tell whether it has changes that the user has not decided about."""
        return self.has_diff and not self.decision


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch: its folder, its tasks in their order, and (while somebody works on it) how the work goes, in lines."""

    path: str
    rows: tuple[BatchRow, ...] = ()
    progress: str = ""

    @property
    def summary(self) -> str:
        """Return how far it is, in one line."""
        ended = [row for row in self.rows if row.status]
        done = sum(row.status in GOOD for row in ended)
        left = sum(row.is_open for row in ended)
        parts = [f"{done} of {len(self.rows)} done", f"{len(ended) - done} failed"]
        parts += [f"{len(self.rows) - len(ended)} waiting"] if len(ended) < len(self.rows) else []
        parts += [f"{left} to review"] if left else []
        return " · ".join(parts)


def with_overlaps(rows: Sequence[BatchRow]) -> tuple[BatchRow, ...]:
    """Return tasks, each with those that changed the same files."""
    by_file: dict[str, list[str]] = {}
    for row in rows:
        for file in row.files if row.has_diff and row.decision != "rejected" else ():
            by_file.setdefault(file, []).append(row.id)
    found = []
    for row in rows:
        others = dict.fromkeys(other for file in row.files for other in by_file.get(file, ()) if other != row.id)
        found.append(BatchRow(**{name: getattr(row, name) for name in BatchRow.__slots__} | {"overlaps": (*others,)}))
    return tuple(found)


class WorkspaceBatches(Protocol):
    """The batches of a workspace."""

    async def read(self, path: str = "") -> BatchState:
        """Return a batch by its folder, the newest where none is named; one without tasks where there is none."""

    def review(self, path: str, task_id: str, session_id: str) -> EffectReview:
        """Return the changes of a task, to be kept in parts as a step of an open session, or rejected.

        Raises:
            UsageError: the session is not open.
        """

    async def reject(self, path: str, task_id: str) -> None:
        """Note that the changes of a task are not wanted; the diff stays."""


class NoBatches:
    """Has none."""

    async def read(self, path: str = "") -> BatchState:
        """Return an empty one."""
        return BatchState(path)

    def review(self, path: str, task_id: str, session_id: str) -> EffectReview:
        """Refuse.  Raises `UsageError`."""
        del path, session_id
        raise UsageError(f"no task {sanitize_line(task_id)[:40]}")

    async def reject(self, path: str, task_id: str) -> None:
        """Do nothing."""
        del path, task_id
