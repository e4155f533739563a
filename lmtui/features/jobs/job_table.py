"""The jobs of a workspace: a table in its index."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lmtui.core.errors import JobsError
from lmtui.features.jobs.values import JobRecord
from lmtui.paths import workspace_state_dir
from lmtui.store.index_file import IndexFile
from lmtui.store.session_logs import is_in_use
from lmtui.store.state_files import locked

Change = Callable[[Sequence[JobRecord]], Iterable[JobRecord]]


class ServingLock:
    """Held by the process that serves a workspace's jobs; its death releases it."""

    def __init__(self, workspace: Path) -> None:
        self._path = workspace_state_dir(workspace) / "scheduler.lock"
        self._held = ExitStack()
        self.is_held = False

    def take(self) -> bool:
        """Take the lock and tell whether it is held here now; where nothing can be written nobody else has it."""
        if not self.is_held:
            try:
                self._held.enter_context(locked(self._path, waits=False))
            except OSError:
                if os.access(self._path, os.W_OK):
                    return False
            self.is_held = True
        return True

    def is_taken(self) -> bool:
        """Tell whether somebody holds the lock."""
        return is_in_use(self._path)

    def release(self) -> None:
        """Let go of the lock; idempotent."""
        self._held.close()
        self.is_held = False


VERSION = 4  # an older lmtui wrote more into the last column; any text there is the sign of a run
NAMES = tuple(column.name for column in fields(JobRecord))
INDEX = "CREATE UNIQUE INDEX IF NOT EXISTS jobs_source ON jobs (source) WHERE source <> ''"
INSERT = " ".join(("INSERT OR REPLACE INTO jobs VALUES", f"({', '.join('?' * len(NAMES))})"))
SCHEMA = f"CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, {', '.join(f'{name} TEXT' for name in NAMES[1:])})"
_TIMES = ("created", "due", "again", "last_run")
_LISTS = ("allow", "deny")
_RECORD = TypeAdapter(JobRecord)


def by_column(record: JobRecord) -> dict[str, Any]:
    """Return a job's values as JSON has them, in the order of the table's columns."""
    return dict(_RECORD.dump_python(record, mode="json"))


def to_row(record: JobRecord) -> list[str]:
    """Return a job's columns, all of them text."""
    values = by_column(record)
    values |= {name: values[name] or "" for name in _TIMES} | {name: json.dumps(values[name]) for name in _LISTS}
    return [str(value) for value in values.values()]


def from_row(row: dict[str, str]) -> JobRecord:
    """Return the job of a row that `to_row` made."""
    values: dict[str, Any] = {name: json.loads(text) if name in _LISTS else text for name, text in row.items()}
    return _RECORD.validate_python(values | {name: row[name] or None for name in _TIMES})


_MOST_DONE = 200
_KEEP_DONE = timedelta(days=30)


class JobFile(IndexFile):
    """The table of one workspace.  Safe to use from several threads and processes; all methods block (disk)."""

    def prepare(self, database: sqlite3.Connection) -> None:
        """Make the table where there is none."""
        self.check(database)
        if not database.execute("PRAGMA user_version").fetchone()[0]:
            for statement in (SCHEMA, INDEX, f"PRAGMA user_version={VERSION}"):
                database.execute(statement)

    def check(self, database: sqlite3.Connection) -> None:
        """Look whether the table is not one of a newer version."""
        if int(database.execute("PRAGMA user_version").fetchone()[0]) > VERSION:
            raise JobsError(f"{self.path} was written by a newer lmtui", "Use that one, or remove the file with its jobs.")

    def read(self) -> tuple[JobRecord, ...]:
        """Return all jobs, oldest first.

        Raises:
            JobsError: the table cannot be read, or was damaged and moved away, which is said once.
        """
        if not self.exists():
            return ()
        with self.open() as database:
            aside, self.aside = self.aside, ""
            if aside:
                raise JobsError(f"this folder's jobs could not be read; the file is now {aside}", "Add the jobs again.")
            return self._all(database)

    def add(self, record: JobRecord) -> bool:
        self.make_folder()
        with self.writing() as database:
            if record.source and database.execute("SELECT 1 FROM jobs WHERE source = ?", (record.source,)).fetchone():
                return False
            database.execute(INSERT, to_row(record))
            self._prune(database, datetime.now(UTC))
        return True

    def change(self, change: Change) -> tuple[JobRecord, ...]:
        if not self.exists():
            return tuple(change(()))
        with self.writing() as database:
            changed = tuple(change(self._all(database)))
            for record in changed:
                database.execute(INSERT, to_row(record))
        return changed

    def remove(self, job_id: str) -> bool:
        if not self.exists():
            return False
        with self.writing() as database:
            return database.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount > 0

    def _all(self, database: sqlite3.Connection) -> tuple[JobRecord, ...]:
        rows = database.execute("SELECT * FROM jobs ORDER BY rtrim(created, 'Z'), id").fetchall()
        return tuple(from_row(dict(zip(NAMES, row, strict=True))) for row in rows)

    def _prune(self, database: sqlite3.Connection, now: datetime) -> None:
        """Forget what was done long ago."""
        done = [each for each in self._all(database) if each.state == "done"]
        old = [each for each in done if each.last_run is not None and now - each.last_run > _KEEP_DONE]
        for record in {each.id: each for each in (*old, *done[:-_MOST_DONE])}.values():
            database.execute("DELETE FROM jobs WHERE id = ?", (record.id,))
