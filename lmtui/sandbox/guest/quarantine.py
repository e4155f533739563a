"""Moves what a command made and programs outside would run to `.lmagent/quarantine`, and packs it there.

Runs in the guard, with every other process of the workspace stopped.  Everything goes through descriptors that follow no link:
a name that is exchanged for a link meanwhile leads nowhere.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from importlib import import_module

from .beneath import Refused

QUARANTINE = ".lmagent/quarantine"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME = 40


def set_aside(root: int, path: bytes) -> str:
    """Move `path` to the quarantine; both are relative to the descriptor `root`.

    Returns:
        Where it is now, relative to the root; empty if it is gone already.

    Raises:
        Refused: it cannot be moved.
    """
    parent, _, name = path.rpartition(b"/")
    label = "".join(char if char.isalnum() and char.isascii() else "-" for char in name.decode("utf-8", "replace")).strip("-")
    target = f"{label[:_MAX_NAME] or 'unnamed'}-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000_000:09d}"
    fds: list[int] = []
    try:
        for part in QUARANTINE.split("/"):
            fds.append(_made(fds[-1] if fds else root, part))
        folder = fds[-1]
        fds.append(open_folder(root, parent))
        _move(fds[-1], name, folder, target)
        packed = str(import_module(".packing", __package__).pack(folder, target))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Refused(f"it could not be moved: {error.strerror}") from error
    finally:
        for fd in fds:
            os.close(fd)
    return f"{QUARANTINE}/{packed}"


def open_folder(root: int, path: bytes) -> int:
    """Open a folder below a descriptor, component by component, without following links.

    Raises:
        OSError: a component is missing, or is not a folder.
    """
    here = os.dup(root)
    for part in path.split(b"/") if path else ():
        try:
            inner = os.open(part, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here


def make_accessible(folder: int | None, name: bytes | str, mode: int) -> None:
    """Add mode bits to a file or folder, never to what a link leads to.  Nothing happens where it is neither."""
    fd = os.open(name, _HANDLE, dir_fd=folder)
    try:
        now = os.fstat(fd).st_mode
        if (stat.S_ISREG(now) or stat.S_ISDIR(now)) and now & mode != mode:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(now) | mode)  # of this inode: the descriptor is no link
    finally:
        os.close(fd)


def _made(parent: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _move(parent: int, name: bytes, folder: int, target: str) -> None:
    try:
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=folder)
    except PermissionError:  # its mode, or its folder's, forbids it; who made it could have set that
        make_accessible(parent, b".", 0o700)
        make_accessible(parent, name, 0o700)
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=folder)
