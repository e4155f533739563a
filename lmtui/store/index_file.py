"""The index of a workspace, `<workspace>/.lmagent/index.db` (SQLite, WAL): tables whose rows are signed.

A row that this user's lmtui did not sign for this folder is nobody's; a file that is not a database, or whose table has another
shape, is moved aside and a new one begun.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lmtui.core.errors import JobsError, SessionFileError
from lmtui.paths import state_dir, workspace_dir
from lmtui.store.session_logs import make_workspace_folder

_log = logging.getLogger(__name__)
INDEX_FILE = "index.db"
_BUSY_S, _NAP_S = 10.0, 0.02
_KEY_BYTES = 32


def key_file() -> Path:
    """Return the file of the key."""
    return state_dir() / "jobs.key"


class Signer:
    """Signs rows for one workspace; the key is made with the first signature."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = str(workspace.resolve())
        self._key = b""

    def sign(self, values: Sequence[object]) -> str:
        """Return the signature of a row (HMAC-SHA256, hex).

        Raises:
            JobsError: the key cannot be made or read.
        """
        return self._digest(self._load(), values)

    def is_ours(self, values: Sequence[object], signature: str) -> bool:
        """Tell whether this user's lmtui signed a row, for this folder; it signs nothing but numbers and whole text."""
        if not signature.isascii() or not all(map(_is_plain, values)):
            return False
        try:
            key = self._key or _read()
        except JobsError:
            return False
        self._key = key
        return bool(key) and hmac.compare_digest(self._digest(key, values), signature)

    def _digest(self, key: bytes, values: Sequence[object]) -> str:
        data = json.dumps([self._workspace, *values], ensure_ascii=True, separators=(",", ":"))
        return hmac.new(key, data.encode(), hashlib.sha256).hexdigest()

    def _load(self) -> bytes:
        self._key = self._key or _read() or _make()
        return self._key


def _is_plain(value: object) -> bool:
    """Tell whether a value is a number, or a text without the lone surrogates that mean bytes of no text."""
    if not isinstance(value, str):
        return isinstance(value, int)
    try:
        _ = value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read() -> bytes:
    """Return the key, nothing where there is none."""
    try:
        key = key_file().read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _cannot("read", error) from error
    if len(key) != _KEY_BYTES:
        raise JobsError(f"{key_file()} is damaged", "Remove it; jobs that were added before must be added again.")
    return key


def _make() -> bytes:
    """Make the key, whole or not at all; where another lmtui was quicker, take its."""
    draft = key_file().with_suffix(f".{secrets.token_hex(4)}")
    try:
        draft.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, key_file())
        draft.unlink()
    except OSError as error:
        raise _cannot("make", error) from error
    return _read()


def _cannot(verb: str, error: OSError) -> JobsError:
    return JobsError(f"cannot {verb} {key_file()}: {error.strerror}", "Check the folder's owner and rights.")


class IndexFile(ABC):
    """A part of the index of one workspace.  Safe to use from several threads and processes; all methods block (disk).

    `aside` is where a file went that could not be read, empty where that did not happen.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.path = workspace_dir(workspace) / INDEX_FILE
        self.signer = Signer(workspace)
        self.aside = ""
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None
        self._inode = 0

    @abstractmethod
    def prepare(self, database: sqlite3.Connection) -> None:
        """Make the tables of this part, or check them.

        Raises:
            ForeignTable: one has another shape.
            JobsError: the file cannot be used.
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
        except ForeignTable:
            return f"{self.path} has a table of another shape"
        return ""

    def exists(self) -> bool:
        """Tell whether there is an index."""
        return _inode(self.path) != 0

    def version(self) -> int:
        """Return a number that is another once another connection changed the file."""
        with self.open() as database:
            return int(database.execute("PRAGMA data_version").fetchone()[0])

    def make_folder(self) -> None:
        """Make the folder of the index.

        Raises:
            JobsError: it cannot be made.
        """
        try:
            make_workspace_folder(self._workspace)
        except SessionFileError as error:
            raise JobsError(str(error), error.hint) from error

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
        self._refuse_links()
        is_idle = not Path(f"{self.path}-wal").exists()  # SQLite makes that file to read, and leaves it
        uri = f"{self.path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_idle else ''}"
        try:
            with contextlib.closing(sqlite3.connect(uri, timeout=1.0, uri=True)) as found:
                found.text_factory = _text_of
                found.execute("PRAGMA trusted_schema=OFF").close()
                yield found
        except sqlite3.Error as error:
            raise JobsError(f"{self.path}: {error}", "lmtui moves a damaged index aside when it next needs one.") from error

    def _refuse_links(self) -> None:
        is_link = self.path.is_symlink() or self.path.parent.is_symlink()
        if is_link or (self.path.exists() and not self.path.is_file()):
            raise JobsError(f"{self.path} is a link or no file; lmtui keeps its index in a real one", "Remove it.")

    def _connect(self) -> sqlite3.Connection:
        """Open the file, as our own: a link is refused, what is not a table of ours is moved aside."""
        self._refuse_links()
        inode = _inode(self.path)
        try:
            return self._connected()
        except (sqlite3.DatabaseError, ForeignTable) as error:
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
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(database.close)
            database.text_factory = _text_of  # bytes of no text make one row nobody's, and not the table unreadable
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "journal_mode=WAL", "synchronous=FULL"):
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


class ForeignTable(Exception):
    """The file holds a table of another shape."""


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _text_of(data: bytes) -> str:
    """Return a column's text; what is not UTF-8 in it becomes lone surrogates, which no row of ours has."""
    return data.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Hold the file for writing; what fails inside leaves it as it was."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        yield
