"""The jobs of a workspace: a table in `<workspace>/.lmagent/index.db` (SQLite, WAL), each row signed.

A row that this user's lmtui did not sign for this folder is passed over and counted; a table of an earlier version becomes one
of this; a file whose table has another shape, or that is no database, is set aside and a new one begun.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lmtui.core.errors import JobsError, SessionFileError
from lmtui.core.jobs import Change, JobRecord, JobsRead
from lmtui.paths import workspace_dir
from lmtui.store.job_rows import INDEX, INSERT, NAMES, SCHEMA, VERSION, create, from_row, is_earlier, migrate, to_row
from lmtui.store.job_signing import Signer
from lmtui.store.sessions import make_workspace_folder

_log = logging.getLogger(__name__)
INDEX_FILE = "index.db"
_BUSY_S = 10.0
_MOST_DONE = 200
_KEEP_DONE = timedelta(days=30)


class JobFile:
    """The table of one workspace; implements `core.jobs.JobTable`.  Safe to use from several threads and processes."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._path = workspace_dir(workspace) / INDEX_FILE
        self._signer = Signer(workspace)
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._aside = ""

    def exists(self) -> bool:
        """Tell whether there is a table."""
        return _inode(self._path) != 0

    def version(self) -> int:
        """Return a number that is another once another connection changed the file."""
        with self._open() as database:
            return int(database.execute("PRAGMA data_version").fetchone()[0])

    def read(self) -> JobsRead:
        """Return all jobs, oldest first."""
        if self._database is None and not self.exists():
            return JobsRead()
        with self._open() as database:
            return self._all(database)

    def add(self, record: JobRecord) -> bool:
        """Add a job; False where one of its source is there already."""
        make_workspace_folder_or_fail(self._workspace)
        with self._open() as database, _transaction(database):
            if record.source and self._has_source(database, record.source):
                return False
            self._write(database, record)
            self._prune(database, datetime.now(UTC))
        return True

    def change(self, change: Change) -> tuple[JobRecord, ...]:
        """Let `change` see all jobs and write what it returns, in one transaction."""
        if self._database is None and not self.exists():
            return ()
        with self._open() as database, _transaction(database):
            changed = tuple(change(self._all(database).records))
            for record in changed:
                self._write(database, record)
        return changed

    def remove(self, job_id: str) -> bool:
        """Remove a job and tell whether it was there."""
        if self._database is None and not self.exists():
            return False
        with self._open() as database, _transaction(database):
            return database.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount > 0

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _all(self, database: sqlite3.Connection) -> JobsRead:
        rows = database.execute("SELECT * FROM jobs ORDER BY created, id").fetchall()
        found = [self._record(row) for row in rows]
        return JobsRead(tuple(record for record in found if record is not None), found.count(None), self._aside)

    def _record(self, row: tuple[Any, ...]) -> JobRecord | None:
        """Return a row's job, None where it is not signed by this user for this folder."""
        *values, signature = row
        if not isinstance(signature, str) or not self._signer.is_ours(values, signature):
            return None
        return from_row(dict(zip(NAMES, values, strict=True)))

    def _has_source(self, database: sqlite3.Connection, source: str) -> bool:
        """Tell whether a job of a source is there; a row of somebody else's that claims to be it goes."""
        row = database.execute("SELECT * FROM jobs WHERE source = ?", (source,)).fetchone()
        if row is not None and self._record(row) is None:
            database.execute("DELETE FROM jobs WHERE source = ?", (source,))
            return False
        return row is not None

    def _write(self, database: sqlite3.Connection, record: JobRecord) -> None:
        values = to_row(record)
        database.execute(INSERT, (*values, self._signer.sign(values)))

    def _prune(self, database: sqlite3.Connection, now: datetime) -> None:
        """Forget what was done long ago."""
        done = [each for each in self._all(database).records if each.state == "done"]
        old = [each for each in done if each.last_run is not None and now - each.last_run > _KEEP_DONE]
        for record in {each.id: each for each in (*old, *done[:-_MOST_DONE])}.values():
            database.execute("DELETE FROM jobs WHERE id = ?", (record.id,))

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Hold the database; what goes wrong in it is told as `JobsError`."""
        with self._lock:
            try:
                if self._database is not None and _inode(self._path) != self._inode:
                    self.close()  # somebody took the file away, or put another in its place
                if self._database is None:
                    self._database = self._connect()
                    self._inode = _inode(self._path)
                yield self._database
            except sqlite3.Error as error:
                self.close()
                raise JobsError(f"{self._path}: {error}", "Close what holds it, or free some space.") from error

    def _connect(self) -> sqlite3.Connection:
        """Open the file, as our own: a link is refused, what is no table of ours is set aside."""
        is_link = self._path.is_symlink() or self._path.parent.is_symlink()
        if is_link or (self._path.exists() and not self._path.is_file()):
            raise JobsError(f"{self._path} is a link or no file; lmtui keeps jobs in a real one", "Remove it.")
        inode = _inode(self._path)
        try:
            return _connected(self._path, self._signer)
        except (sqlite3.DatabaseError, _Foreign) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
        self._set_aside(inode)
        return _connected(self._path, self._signer)

    def _set_aside(self, inode: int) -> None:
        stamp = f"{datetime.now(UTC):%Y%m%d_%H%M%S}"
        try:
            if _inode(self._path) != inode:
                return  # another lmtui did it meanwhile
            for ending in ("", "-wal", "-shm", "-journal"):
                path = Path(f"{self._path}{ending}")
                if path.exists():
                    path.rename(f"{self._path}.{stamp}.aside{ending}")
            self._aside = f"{self._path}.{stamp}.aside"
            _log.warning("%s is no table of jobs that this lmtui can read; it is %s now", self._path, self._aside)
        except OSError as error:
            raise JobsError(f"{self._path} is no table of lmtui's and cannot be set aside: {error.strerror}") from error


class _Foreign(Exception):
    """The file holds a table of another shape."""


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _connected(path: Path, signer: Signer) -> sqlite3.Connection:
    with contextlib.suppress(OSError):  # a new file is its owner's alone, and so is what SQLite puts beside it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(database.close)
        database.text_factory = _text_of  # bytes of no text make one row nobody's, and not the table unreadable
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "journal_mode=WAL", "synchronous=FULL"):
            database.execute(f"PRAGMA {pragma}").close()
        _bring_to_this_version(path, database, signer)
        on_failure.pop_all()
    return database


def _bring_to_this_version(path: Path, database: sqlite3.Connection, signer: Signer) -> None:
    """Make the table where there is none, or bring one of an earlier version to this one."""
    if not _shapes(database) or is_earlier(_shapes(database)):
        with _transaction(database):
            shapes = _shapes(database)
            if not shapes:
                create(database)
            elif is_earlier(shapes):
                migrate(database, shapes, signer)
    if int(database.execute("PRAGMA user_version").fetchone()[0]) > VERSION:
        raise JobsError(f"{path} was written by a newer lmtui", "Use that one, or remove the file with its jobs.")
    if _shapes(database) != {SCHEMA, INDEX}:
        raise _Foreign


def _text_of(data: bytes) -> str:
    """Return a column's text; what is no UTF-8 in it becomes lone surrogates, which no row of ours has."""
    return data.decode("utf-8", "surrogateescape")


def _shapes(database: sqlite3.Connection) -> set[str]:
    """Return what was said to make the table and all that hangs on it."""
    found = database.execute("SELECT sql FROM sqlite_master WHERE (tbl_name = 'jobs' OR name = 'jobs') AND sql IS NOT NULL")
    return {str(sql) for (sql,) in found}


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Hold the file for writing; what fails inside leaves it as it was."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        yield


def make_workspace_folder_or_fail(workspace: Path) -> None:
    """Make the workspace's own folder.

    Raises:
        JobsError: it cannot be made.
    """
    try:
        make_workspace_folder(workspace)
    except SessionFileError as error:
        raise JobsError(str(error), error.hint) from error
