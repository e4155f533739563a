"""Batches as front ends see them: tasks, their results, and the user's decisions.  No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Protocol

from pydantic import AfterValidator, BeforeValidator

from lmtui.core.budgets import NO_BUDGET, SessionBudget
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import EffectReview

NO_BATCH = (
    'No batch yet. Type /batch --glob "src/*.py" Fix {file} for one task per file, or /batch tasks.jsonl for one per line. '
    "The changes appear here for review. `lmtui batch` does the same from a shell."
)
MOST_OVERLAPS = 20
GOOD = frozenset({"green", "unverified"})
DONE = GOOD | {"unchanged"}  # a question changes nothing, and is answered
FAILED = frozenset({"red", "failed"})


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a batch runs: `workers` tasks at once (0: as many as slots), `tries` for each.

    `budget` limits a task with all its tries (two hours by default), `total` one run of the batch.
    """

    workers: int = 0
    tries: int = 2
    budget: SessionBudget = NO_BUDGET
    total: SessionBudget = NO_BUDGET


_Line = Annotated[str, BeforeValidator(lambda value: sanitize_line(str(value)))]
_Text = Annotated[_Line, AfterValidator(lambda text: text[:1_000])]
_Count = Annotated[int, AfterValidator(lambda count: max(0, count))]
_Seconds = Annotated[float, AfterValidator(lambda seconds: max(0.0, seconds))]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended; read from JSON, its texts are sanitized for the terminal.

    `status` is `green` (its checks pass), `unverified` (done, without checks), `unchanged`, `red`, `failed` (the turn
    ended with an error) or `unreachable` (no model server answered; it is retried).  `diff` is its patch, relative to the
    batch folder, `decision` the user's: `accepted`, `partly accepted` or `rejected`.
    """

    id: Annotated[str, BeforeValidator(str)]
    status: Annotated[str, BeforeValidator(str)]
    task: _Text = ""
    files: tuple[_Line, ...] = ()
    added: _Count = 0
    removed: _Count = 0
    diff: _Text = ""
    session: _Text = ""
    model: _Text = ""
    tries: _Count = 1
    tokens: _Count = 0
    elapsed_s: _Seconds = 0.0
    checks: Mapping[_Line, _Line] = field(default_factory=dict)
    error: _Text = ""
    decision: _Text = ""

    @property
    def is_open(self) -> bool:
        """Tell whether it has changes that need a decision."""
        return bool(self.diff) and not self.decision

    @property
    def is_accepted(self) -> bool:
        """Tell whether its changes, or some of them, are in the workspace."""
        return self.decision.endswith("accepted")


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch: its folder, its tasks in order, and its progress in lines (while it runs).

    A task that has not ended has no status.  `running` has those that run now, with the seconds since 1970 when each started.
    `overlaps` has, for tasks with changes, the ids of others (at most `MOST_OVERLAPS`) that changed the same files.
    """

    path: str
    rows: tuple[TaskResult, ...] = ()
    progress: str = ""
    running: Mapping[str, float] = field(default_factory=dict)
    overlaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def why_not(self, row: TaskResult) -> str:
        """Return a sentence with the accepted tasks that changed the same files, empty if there are none."""
        kept = [each.id for each in self.rows if each.id in self.overlaps.get(row.id, ()) and each.is_accepted]
        return f"Already accepted, with changes to the same files: {', '.join(kept)}." if kept else ""

    @property
    def summary(self) -> str:
        """Return the progress in one line, empty without tasks."""
        text = counts_text(Counter(row.status for row in self.rows), len(self.rows), len(self.running)) if self.rows else ""
        left = sum(row.is_open for row in self.rows)
        return f"{text} · {left} to review" if left else text

    @property
    def mergeable(self) -> list[TaskResult]:
        """Return the tasks that can be accepted together: green, undecided and without overlaps.

        If no task has checks, return the unverified ones.
        """
        wanted = "green" if any(row.status in ("green", "red") for row in self.rows) else "unverified"
        return [row for row in self.rows if row.is_open and row.id not in self.overlaps and row.status == wanted]


def counts_text(statuses: Counter[str], total: int, running: int) -> str:
    """Return how many tasks are done, failed, unchanged, running and waiting, in one line."""
    done, failed = (sum(statuses[status] for status in wanted) for wanted in (DONE, FAILED))
    more = ((statuses["unchanged"], "unchanged"), (running, "running"), (total - done - failed - running, "waiting"))
    return " · ".join([f"{done} of {total} done", f"{failed} failed", *(f"{n} {word}" for n, word in more if n > 0)])


def overlaps_of(rows: Sequence[TaskResult]) -> dict[str, tuple[str, ...]]:
    """Return the overlaps of a batch; see `BatchState`."""
    by_file: dict[str, list[str]] = {}
    for row in rows:
        for file in row.files if row.diff and row.decision != "rejected" else ():
            by_file.setdefault(file, []).append(row.id)
    found = {}
    for row in rows:
        others = (other for file in row.files for other in by_file.get(file, ()) if other != row.id)
        if few := tuple(dict.fromkeys(islice(others, 2 * MOST_OVERLAPS)))[:MOST_OVERLAPS]:
            found[row.id] = few
    return found


class WorkspaceBatches(Protocol):
    """The batches of a workspace."""

    async def read(self, path: str = "") -> BatchState:
        """Return a batch by its folder, by default the newest; one without tasks if none exists."""

    def review(self, path: str, task_id: str, session_id: str) -> EffectReview:
        """Return the changes of a task, to be accepted in parts as a step of an open session, or rejected.

        Raises:
            UsageError: the session is not open.
        """

    async def reject(self, path: str, task_id: str) -> None:
        """Record that the changes of a task are rejected; the diff stays."""

    async def count_new(self, words: str) -> int:
        """Return how many tasks a batch started with these arguments has, 0 if they name a batch.

        Raises:
            UsageError: no tasks, or another batch is running.
        """

    async def open(self, words: str, session_id: str) -> str:
        """Return the folder of the given batch, or of one started in the background with these arguments.

        The session is notified when it ends.

        Raises:
            UsageError: no tasks, or another batch is running.
        """

    async def resume(self, path: str, session_id: str) -> None:
        """Continue a batch in the background.

        Raises:
            UsageError: another process is working on it.
        """

    async def halt(self, path: str) -> None:
        """Stop the batch in the background; it can be resumed.

        Raises:
            UsageError: it is not running here.
        """
