"""Files of the user's own state: changed by one process at a time, and written whole and in one step."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(lock: Path, *, waits: bool = True) -> Iterator[None]:
    """Hold a lock file against other processes; the folder is made where it is missing.  Blocks.

    Raises:
        BlockingIOError: another process holds it; only where this one `waits` not.
        OSError: it cannot be made.
    """
    lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield
    finally:
        os.close(held)


def write_whole(file: Path, text: str, *, errors: str = "backslashreplace") -> None:
    """Put a text in the place of a file's, in one step; readable by its owner alone.  Blocks.

    `errors` says what becomes of half a character: by default JSON's escape.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors=errors) as target:
            target.write(text)
        Path(name).replace(file)
    except (OSError, UnicodeError):
        Path(name).unlink(missing_ok=True)
        raise
