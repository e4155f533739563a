"""Batches as front ends see them: which tasks there are, how they ended, and what became of their changes.  No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import EffectReview

NO_BATCH = (
    'No batch yet. Type /batch --glob "src/*.py" Fix {file} for a task for each file, or /batch tasks.jsonl for a task a line. '
    "The changes appear here for review. `lmtui batch` does the same from a shell."
)
MOST_OVERLAPS = 20
GOOD = frozenset({"green", "unverified"})


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A task of a batch: how it ended (empty: not yet) and what the user decided about its changes.

    `overlaps` are the ids of other tasks (at most `MOST_OVERLAPS`) that changed the same files and are not rejected.  `since_s`
    is since when it runs, in seconds since 1970, 0 if it does not.
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
    since_s: float = 0.0

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

    def why_not(self, row: BatchRow) -> str:
        """Return which tasks that were accepted before changed the same files, in a sentence; empty where none did."""
        kept = [each.id for each in self.rows if each.id in row.overlaps and each.decision.startswith("kept")]
        return f"Accepted before, with changes to the same files: {', '.join(kept)}." if kept else ""

    @property
    def summary(self) -> str:
        """Return how far it is, in one line; nothing without tasks."""
        if not self.rows:
            return ""
        ended = [row for row in self.rows if row.status]
        done = sum(row.status in GOOD for row in ended)
        unchanged = sum(row.status == "unchanged" for row in ended)
        left = sum(row.is_open for row in ended)
        parts = [f"{done} of {len(self.rows)} done", f"{len(ended) - done - unchanged} failed"]
        parts += [f"{unchanged} unchanged"] if unchanged else []
        running = sum(row.since_s > 0 for row in self.rows)
        waiting = len(self.rows) - len(ended) - running
        parts += [f"{running} running"] if running else []
        parts += [f"{waiting} waiting"] if waiting > 0 else []
        parts += [f"{left} to review"] if left else []
        return " · ".join(parts)


def with_overlaps(rows: Sequence[BatchRow]) -> tuple[BatchRow, ...]:
    """Return tasks, each with those that changed the same files."""
    by_file: dict[str, list[str]] = {}
    for row in rows:
        for file in row.files if row.has_diff and row.decision != "rejected" else ():
            by_file.setdefault(file, []).append(row.id)
    return tuple(_with_overlaps(row, by_file) if row.files else row for row in rows)


def _with_overlaps(row: BatchRow, by_file: Mapping[str, Sequence[str]]) -> BatchRow:
    lists = [by_file.get(file, ()) for file in row.files]
    others = islice((other for each in lists for other in each if other != row.id), 2 * MOST_OVERLAPS)
    overlaps = tuple(dict.fromkeys(others))[:MOST_OVERLAPS]
    return replace(row, overlaps=overlaps) if overlaps != row.overlaps else row


def mergeable(rows: Sequence[BatchRow]) -> list[BatchRow]:
    """Return the tasks that can be accepted together: green, not decided about, none in the way of another.

    Where no task of the batch has checks, those that are unverified.
    """
    wanted = "green" if any(row.status in ("green", "red") for row in rows) else "unverified"
    return [row for row in rows if row.is_open and not row.overlaps and row.status == wanted]


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

    async def open(self, words: str, session_id: str) -> str:
        """Return the folder of a batch: the one that is named, or of one that begins with these words in the background.

        The session is notified when it ends.

        Raises:
            UsageError: there are no tasks in it, or another batch runs.
        """

    async def resume(self, path: str, session_id: str) -> None:
        """Continue a batch in the background.

        Raises:
            UsageError: somebody works on it.
        """

    async def halt(self, path: str) -> None:
        """Stop a batch that runs in the background; it can be resumed.

        Raises:
            UsageError: it does not run here.
        """


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

    async def open(self, words: str, session_id: str) -> str:
        """Return nothing."""
        del words, session_id
        return ""

    async def resume(self, path: str, session_id: str) -> None:
        """Refuse.  Raises `UsageError`."""
        del path, session_id
        raise UsageError("there is no batch")

    async def halt(self, path: str) -> None:
        """Refuse.  Raises `UsageError`."""
        del path
        raise UsageError("there is no batch")
