"""The queue of a workspace: a table in its index with one row for each plan and each of its tasks.

One process works on the plans of a workspace at a time: it holds a lock that goes with it.  Others may read and change tasks.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import TypeAdapter

from lmtui.core.errors import UsageError
from lmtui.features.pipeline.values import PipelinePlan, PipelineTask
from lmtui.paths import workspace_state_dir
from lmtui.store.index_file import IndexFile
from lmtui.store.state_files import locked

Change = Callable[[PipelinePlan], Iterable[PipelineTask | PipelinePlan]]
"""Sees a plan and returns the tasks that change, and the plan where its own fields do."""

_SCHEMA = "CREATE TABLE IF NOT EXISTS pipeline (plan TEXT, task INTEGER, data TEXT, PRIMARY KEY (plan, task))"
_PLAN = 0  # the number of the row of a plan itself; tasks count from 1
_PART = -1  # a planner's answer about a part of a plan, under the digest of the part
_LOCK_FILE = "pipeline.lock"


class PipelineFile(IndexFile):
    """The plans of one workspace."""

    def prepare(self, database: sqlite3.Connection) -> None:
        """Make the table where there is none."""
        database.execute(_SCHEMA)

    def check(self, database: sqlite3.Connection) -> None:
        """Take any table: there is one version."""

    def read(self, *, only_looks: bool = False) -> list[PipelinePlan]:
        """Return all plans, the newest first; one that `only_looks` leaves the file as it is.

        Raises:
            JobsError: it cannot be read.
        """
        if not self.exists():
            return []
        with self.looking() if only_looks else self.open() as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'pipeline'").fetchone():
                return []
            ids = database.execute("SELECT plan FROM pipeline WHERE task = ?", (_PLAN,)).fetchall()
            found = [plan for (each,) in ids if (plan := self._plan(database, str(each))) is not None]
        return sorted(found, key=lambda each: each.created, reverse=True)

    def add(self, plan: PipelinePlan) -> None:
        """Add a plan with its tasks, whole or not at all; what is there of it is replaced, and answers about parts go."""
        self.make_folder()
        with self.writing() as database:
            database.execute("DELETE FROM pipeline WHERE plan = ? OR task = ?", (plan.id, _PART))
            self._write(database, plan.id, [plan, *plan.tasks])

    def change(self, plan_id: str, change: Change) -> PipelinePlan:
        """Let `change` see a plan and write what it returns, in one transaction; return the plan as it is then.

        Raises:
            UsageError: the plan is gone.
        """
        with self.writing() as database:
            plan = self._plan(database, plan_id) if self.exists() else None
            if plan is None:
                raise UsageError(f"the plan {plan_id} is no longer in the queue")
            changed = [*change(plan)]
            self._write(database, plan_id, changed)
        return changed_plan(plan, changed)

    def parts(self) -> dict[str, str]:
        """Return what planners answered about parts of plans, by their digests."""
        if not self.exists():
            return {}
        with self.open() as database:
            rows = database.execute("SELECT plan, data FROM pipeline WHERE task = ?", (_PART,)).fetchall()
        return {digest: json.loads(data) for digest, data in rows}

    def keep_part(self, digest: str, answer: str) -> None:
        """Keep what a planner answered about a part of a plan."""
        self.make_folder()
        with self.writing() as database:
            self._insert(database, digest, _PART, answer)

    def _plan(self, database: sqlite3.Connection, plan_id: str) -> PipelinePlan | None:
        rows = database.execute("SELECT task, data FROM pipeline WHERE plan = ? ORDER BY task", (plan_id,)).fetchall()
        if not rows or rows[0][0] != _PLAN:
            return None
        tasks = tuple(_reader(PipelineTask).validate_json(data) for _, data in rows[1:])
        plan: PipelinePlan = _reader(PipelinePlan).validate_json(rows[0][1])
        return replace(plan, tasks=tasks)

    def _write(self, database: sqlite3.Connection, plan_id: str, changed: Iterable[PipelineTask | PipelinePlan]) -> None:
        for each in changed:
            values = asdict(each)
            values.pop("tasks", None)
            number = each.id if isinstance(each, PipelineTask) else _PLAN
            self._insert(database, plan_id, number, values)

    def _insert(self, database: sqlite3.Connection, plan_id: str, number: int, values: object) -> None:
        row = (plan_id, number, json.dumps(values, ensure_ascii=True, default=str))
        database.execute("INSERT OR REPLACE INTO pipeline VALUES (?, ?, ?)", row)


def changed_plan(plan: PipelinePlan, changed: Sequence[PipelineTask | PipelinePlan]) -> PipelinePlan:
    """Return a plan after changes of itself and its tasks."""
    plan = next((replace(each, tasks=plan.tasks) for each in changed if isinstance(each, PipelinePlan)), plan)
    tasks = {each.id: each for each in (*plan.tasks, *(each for each in changed if isinstance(each, PipelineTask)))}
    return replace(plan, tasks=tuple(tasks.values()))


_reader = functools.cache(TypeAdapter)


@contextlib.contextmanager
def run_lock(workspace: Path) -> Iterator[None]:
    """Be the one process that works on the plans of a workspace.

    Raises:
        UsageError: another process is.
    """
    path = workspace_state_dir(workspace) / _LOCK_FILE
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(path, waits=False))
        except BlockingIOError as error:
            raise UsageError(
                "another lmtui is working on a plan in this folder", "Follow it with `lmtui pipeline status`, or stop it first."
            ) from error
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}", "Check the folder's owner and rights.") from error
        yield


def find_plan(plans: Sequence[PipelinePlan], wanted: str) -> PipelinePlan:
    """Return a plan by its name, its path, or the beginning of its id; the newest where nothing is wanted.

    Raises:
        UsageError: none matches, or several do.
    """
    names = [each for each in plans if wanted in ("", each.name, each.path, each.id)]
    found = names[:1] or [each for each in plans if each.id.startswith(wanted)]
    if len(found) != 1:
        what = f"no plan is called {wanted[:60]!r}" if wanted else "there is no plan"
        raise UsageError(f"{what} here", "`lmtui pipeline run PLAN.md` begins one.")
    return found[0]
