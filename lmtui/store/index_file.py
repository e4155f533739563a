"""The index of a workspace, `index.db` in the user's state folder (SQLite, WAL).  A file that is damaged is moved aside."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from lmtui.core.errors import JobsError
from lmtui.paths import workspace_state_dir

_log = logging.getLogger(__name__)
INDEX_FILE = "index.db"
_BUSY_S, _NAP_S = 10.0, 0.02


class IndexFile(ABC):
    """A part of the index of one workspace, or of the file at `path`.  Safe to use from several threads and processes.

    All methods block (disk).  `aside` is where a file went that could not be read, empty where that did not happen.
    """

    def __init__(self, workspace: Path, path: Path | None = None) -> None:
        self.path = path or workspace_state_dir(workspace) / INDEX_FILE
        self.aside = ""
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0

    @abstractmethod
    def prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables of this part, or check them.

        Raises:
            JobsError: a newer version made them.
        """

    @abstractmethod
    def check(self, database: sqlite3.Connection) -> None:
        """Look whether the tables of this part, as far as they are there, are those of this version.  Raises as `prepare`."""

    def problem(self) -> str:
        """Return why this part cannot be used as it is, empty where it can; the file stays as it is."""
        try:
            if self.exists():
                with self.looking() as database:
                    found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
                    if found != "ok":
                        return f"{self.path}: {found}"
                    self.check(database)
        except JobsError as error:
            return str(error)
        return ""

    def exists(self) -> bool:
        return _inode(self.path) != 0

    def version(self) -> int:
        """Return a number that is another once the file was changed."""
        with self.open() as database:
            by_others = int(database.execute("PRAGMA data_version").fetchone()[0])
            return by_others + database.total_changes

    def make_folder(self) -> None:
        """Make the folder of the index.

        Raises:
            JobsError: it cannot be made.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JobsError(
                f"cannot make {self.path.parent}: {error.strerror}", "Check the folder's owner and rights."
            ) from error

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the file for writing; what fails inside leaves it as it was."""
        with self.open() as database, transaction(database):
            yield database

    @contextlib.contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Hold the database; what goes wrong in it is told as `JobsError`."""
        with self._lock:
            try:
                if self._database is not None and _inode(self.path) != self._inode:
                    self.close()  # somebody took the file away, or put another in its place
                if self._database is None:
                    self._database = self._connect()
                    self._inode = _inode(self.path)
                yield self._database
            except sqlite3.Error as error:
                self.close()
                raise JobsError(f"{self.path}: {error}", "Close what holds it, or free some space.") from error

    @contextlib.contextmanager
    def looking(self) -> Iterator[sqlite3.Connection]:
        """Open the database for a look: nothing is made or moved aside.

        Raises:
            JobsError: it cannot be read.
        """
        is_idle = not Path(f"{self.path}-wal").exists()  # SQLite makes that file to read, and leaves it
        uri = f"{self.path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_idle else ''}"
        try:
            with contextlib.closing(sqlite3.connect(uri, timeout=1.0, uri=True)) as found:
                yield found
        except sqlite3.Error as error:
            raise JobsError(f"{self.path}: {error}", "lmtui moves a damaged index aside when it next needs one.") from error

    def _connect(self) -> sqlite3.Connection:
        """Open the file; one that is damaged is moved aside."""
        inode = _inode(self.path)
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
        self._set_aside(inode)
        return self._connected()

    def _set_aside(self, inode: int) -> None:
        stamp = f"{datetime.now(UTC):%Y%m%d_%H%M%S}"
        try:
            if _inode(self.path) != inode:
                return  # another lmtui did it meanwhile
            for ending in ("", "-wal", "-shm", "-journal"):
                path = Path(f"{self.path}{ending}")
                if path.exists():
                    path.rename(f"{self.path}.{stamp}.aside{ending}")
            self.aside = f"{self.path}.{stamp}.aside"
            _log.warning("%s is not an index that this lmtui can read; it is %s now", self.path, self.aside)
        except OSError as error:
            raise JobsError(f"{self.path} is not an index of lmtui's and cannot be moved away: {error.strerror}") from error

    def _connected(self) -> sqlite3.Connection:
        path = self.path
        with contextlib.suppress(OSError):  # a new file is its owner's alone, and so is what SQLite puts beside it
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(database.close)
            for pragma in ("journal_mode=WAL", "synchronous=FULL"):
                _set_pragma(database, pragma)
            self.prepare(database)
            on_failure.pop_all()
        return database


def _set_pragma(database: sqlite3.Connection, pragma: str) -> None:
    """Set a pragma; one that another process keeps from it, which SQLite does not wait for here, is tried again."""
    end_s = time.monotonic() + _BUSY_S
    while True:
        try:
            database.execute(f"PRAGMA {pragma}").close()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end_s:
                raise
            time.sleep(_NAP_S)
        else:
            return


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Hold the file for writing; what fails inside leaves it as it was."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        yield
