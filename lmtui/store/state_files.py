"""Files of lmtui's own, in the user's state and in `.lmagent`: changed by one process at a time, written in one step."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from lmtui.paths import WORKSPACE_FOLDER
from lmtui.plain_files import open_own, own_folder


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
    """Put a text in the place of a file's, in one step; readable by its owner alone, never through a link.  Blocks.

    `errors` says what becomes of half a character: by default JSON's escape.

    Raises:
        OSError: it cannot be written; the file is as it was.
    """
    if WORKSPACE_FOLDER not in file.parts:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
    with own_folder(file.parent, makes=True) as folder:
        try:
            with open(draft, "x", encoding="utf-8", errors=errors, opener=open_own) as target:
                target.write(text)
            os.replace(draft.name, file.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(FileNotFoundError):  # it became the file
                os.unlink(draft.name, dir_fd=folder)
