"""Moves what a command made and programs outside would run to `.lmagent/quarantine`, and closes it there.

Runs in the guard, with every other process of the workspace stopped, so that nothing can be exchanged meanwhile.  Moving also
goes through descriptors that follow no link.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from .beneath import Refused

QUARANTINE = ".lmagent/quarantine"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME = 40


def set_aside(root: int, path: bytes) -> str:
    """Move `path` to the quarantine; both are relative to the descriptor `root`.

    A folder gets no mode bits: no program enters it, and a repository in it is not found.

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
        fds.append(open_folder(root, QUARANTINE.encode(), makes=True))
        fds.append(open_folder(root, parent))
        _move(fds[1], name, fds[0], target)
        if stat.S_ISDIR(os.stat(target, dir_fd=fds[0], follow_symlinks=False).st_mode):
            os.chmod(target, 0, dir_fd=fds[0])
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Refused(f"it could not be moved: {error.strerror}") from error
    finally:
        for fd in fds:
            os.close(fd)
    return f"{QUARANTINE}/{target}"


def open_folder(root: int, path: bytes, *, makes: bool = False) -> int:
    """Open a folder below a descriptor, component by component, without following links; make what is missing if it `makes`.

    Raises:
        OSError: a component is missing, or is not a folder.
    """
    here = os.dup(root)
    for part in path.split(b"/") if path else ():
        try:
            with suppress(FileExistsError):
                if makes:
                    os.mkdir(part, 0o755, dir_fd=here)
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


def _move(parent: int, name: bytes, folder: int, target: str) -> None:
    try:
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=folder)
    except PermissionError:  # its mode, or its folder's, forbids it; who made it could have set that
        make_accessible(parent, b".", 0o700)
        make_accessible(parent, name, 0o700)
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=folder)
