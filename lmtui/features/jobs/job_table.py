"""The jobs of a workspace: a table in its index."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lmtui.core.errors import JobsError
from lmtui.core.jobs import Change, JobHistory, JobKind, JobPolicy, JobRecord, JobsRead, Lease, Missed
from lmtui.paths import workspace_state_dir
from lmtui.store.index_file import IndexFile

_LOCK_FILE = "scheduler.lock"
_GATE_S = 2.0
_GATE_NAP_S = 0.01


class Presence:
    """One scheduler's sign, a lock that many may share; all methods block (disk).

    Whoever looks or enters holds the folder's own lock meanwhile: a lock that is turned from alone to shared is let go of in
    between, and two that enter at once would both find nobody there.
    """

    def __init__(self, workspace: Path) -> None:
        self._path = workspace_state_dir(workspace) / _LOCK_FILE
        self._descriptor = -1

    def enter(self) -> bool:
        """Say that one is here; True where it is the only one.  Where nothing can be written, it is."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return True
        with _gate(self._path.parent):
            is_first = _locked(self._descriptor, fcntl.LOCK_EX)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return is_first

    def is_anyone(self) -> bool:
        """Tell whether a scheduler is here."""
        with contextlib.suppress(OSError), _gate(self._path.parent):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return not _locked(descriptor, fcntl.LOCK_EX)
            finally:
                os.close(descriptor)
        return False

    def leave(self) -> None:
        """Say that this one is gone; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextlib.contextmanager
def _gate(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; whoever does not let go of it in time (a process that was stopped there) is passed by."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + _GATE_S
        while not _locked(descriptor, fcntl.LOCK_EX) and time.monotonic() < end:
            time.sleep(_GATE_NAP_S)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


VERSION = 4
NAMES = (
    *("id", "text", "title", "created", "kind", "schedule", "zone", "due", "is_enabled", "session", "mode", "allow", "deny"),
    *("missed", "runs", "attempts", "tries", "again", "last_run", "last_outcome", "last_session", "begun_session", "begun_seq"),
    *("source", "lease"),
)
INDEX = "CREATE UNIQUE INDEX IF NOT EXISTS jobs_source ON jobs (source) WHERE source <> ''"
INSERT = " ".join(("INSERT OR REPLACE INTO jobs VALUES", f"({', '.join('?' * len(NAMES))})"))
SCHEMA = f"CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, {', '.join(f'{name} TEXT' for name in NAMES[1:])})"
_TIMES = ("created", "due", "again", "last_run")
_LISTS = ("allow", "deny")


def by_column(record: JobRecord) -> dict[str, Any]:
    """Return a job's values, in the order of the table's columns."""
    values = asdict(record)
    values |= values["policy"] | values["history"]
    return {name: values[name] for name in NAMES}


def to_row(record: JobRecord) -> list[str]:
    """Return a job's columns, all of them text."""
    values = by_column(record)
    for name in _TIMES:
        values[name] = values[name].astimezone(UTC).isoformat() if values[name] is not None else ""
    for name in _LISTS:
        values[name] = json.dumps(values[name])
    lease = record.lease
    values["lease"] = json.dumps(values["lease"] | {"until": lease.until.isoformat()}) if lease is not None else ""
    return [str(values[name]) for name in NAMES]


def from_row(row: dict[str, str]) -> JobRecord:
    """Return the job of a row that `to_row` made."""
    times = {name: datetime.fromisoformat(row[name]) if row[name] else None for name in _TIMES}
    lease = json.loads(row["lease"]) if row["lease"] else None
    return JobRecord(
        **{name: row[name] for name in ("id", "text", "title", "schedule", "zone", "session", "source")},
        created=times["created"] or datetime.now(UTC),
        kind=JobKind(row["kind"]),
        due=times["due"],
        is_enabled=row["is_enabled"] == "True",
        policy=JobPolicy(row["mode"], tuple(json.loads(row["allow"])), tuple(json.loads(row["deny"]))),
        missed=Missed(row["missed"]),
        history=JobHistory(
            **{name: int(row[name]) for name in ("runs", "attempts", "tries", "begun_seq")},
            again=times["again"],
            last_run=times["last_run"],
            last_outcome=row["last_outcome"],
            last_session=row["last_session"],
            begun_session=row["begun_session"],
        ),
        lease=Lease(**(lease | {"until": datetime.fromisoformat(lease["until"])})) if lease else None,
    )


_MOST_DONE = 200
_KEEP_DONE = timedelta(days=30)


class JobFile(IndexFile):
    """The table of one workspace; implements `core.jobs.JobTable`.  Safe to use from several threads and processes."""

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

    def read(self) -> JobsRead:
        if not self.exists():
            return JobsRead()
        with self.open() as database:
            return self._all(database)

    def add(self, record: JobRecord) -> bool:
        self.make_folder()
        with self.writing() as database:
            if record.source and database.execute("SELECT 1 FROM jobs WHERE source = ?", (record.source,)).fetchone():
                return False
            self._write(database, record)
            self._prune(database, datetime.now(UTC))
        return True

    def change(self, change: Change) -> tuple[JobRecord, ...]:
        if not self.exists():
            return ()
        with self.writing() as database:
            changed = tuple(change(self._all(database).records))
            for record in changed:
                self._write(database, record)
        return changed

    def remove(self, job_id: str) -> bool:
        if not self.exists():
            return False
        with self.writing() as database:
            return database.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount > 0

    def _all(self, database: sqlite3.Connection) -> JobsRead:
        rows = database.execute("SELECT * FROM jobs ORDER BY created, id").fetchall()
        return JobsRead(tuple(from_row(dict(zip(NAMES, row, strict=True))) for row in rows), self.aside)

    @staticmethod
    def _write(database: sqlite3.Connection, record: JobRecord) -> None:
        database.execute(INSERT, to_row(record))

    def _prune(self, database: sqlite3.Connection, now: datetime) -> None:
        """Forget what was done long ago."""
        done = [each for each in self._all(database).records if each.state == "done"]
        old = [each for each in done if each.history.last_run is not None and now - each.history.last_run > _KEEP_DONE]
        for record in {each.id: each for each in (*old, *done[:-_MOST_DONE])}.values():
            database.execute("DELETE FROM jobs WHERE id = ?", (record.id,))
