"""Small text files that other people may have put there: read on the host without following a link in any part of the path."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotPlain(Exception):
    """There is something of that name that is not read; the text says why."""


def read_plain(root: Path, relative: str, max_bytes: int) -> bytes | None:
    """Return up to `max_bytes` of a regular file below a folder, None where there is none.  Blocks.

    Raises:
        NotPlain: it is a link, a pipe, a device, or must not be read.
    """
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        *above, name = relative.split("/")
        for part in above:
            folder = _below(folder, part)
        with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NotPlain("it is not a regular file")
            return file.read(max_bytes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotPlain("it is a link" if _is_link(folder, relative) else str(error.strerror)) from error
    finally:
        os.close(folder)


def is_plain_folder(root: Path, relative: str) -> bool:
    """Tell whether there is a folder below another that no part of the path is a link to.  Blocks."""
    path = root
    for part in relative.split("/"):
        path /= part
        try:
            if not stat.S_ISDIR(path.lstat().st_mode):
                return False
        except OSError:
            return False
    return True


def _below(folder: int, part: str) -> int:
    """Return the folder of a name in place of the one given, which is closed."""
    inner = os.open(part, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def _is_link(folder: int, relative: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(relative.rpartition("/")[2], dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
