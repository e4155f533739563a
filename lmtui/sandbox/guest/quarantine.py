"""Moves what a command made and programs outside would run to `.lmagent/quarantine`, and packs it there.

Runs in the guard, with every other process of the workspace stopped, so that nothing can be exchanged meanwhile.  Moving also
goes through descriptors that follow no link.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from importlib import import_module

from .beneath import Refused

TYPE_CHECKING = False  # as in `typing`, which would make each start of a supervisor slower
if TYPE_CHECKING:
    from tarfile import TarInfo

QUARANTINE = ".lmagent/quarantine"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME = 40
_MAX_PACKED_BYTES = 64 << 20
_MAX_PACKED_FILES = 20_000


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
        fds.append(open_folder(root, QUARANTINE.encode(), makes=True))
        fds.append(open_folder(root, parent))
        _move(fds[1], name, fds[0], target)
        packed = _packed(fds[0], target)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Refused(f"it could not be moved: {error.strerror}") from error
    finally:
        for fd in fds:
            os.close(fd)
    return f"{QUARANTINE}/{packed}"


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


def _packed(folder: int, name: str) -> str:
    """Turn what was moved into an archive and return its name; what is too large, or cannot be read, stays as it is.

    Links are packed as links; pipes, sockets and devices are left out.
    """
    tarfile = import_module("tarfile")  # late: nearly nothing is ever packed
    files_left, bytes_left = _MAX_PACKED_FILES, _MAX_PACKED_BYTES

    def counted(entry: TarInfo) -> TarInfo | None:
        nonlocal files_left, bytes_left
        if not (entry.isfile() or entry.isdir() or entry.issym() or entry.islnk()):
            return None
        files_left, bytes_left = files_left - 1, bytes_left - entry.size
        if files_left < 0 or bytes_left < 0:
            raise OSError("there is more than an archive may hold")
        make_accessible(folder, entry.name, 0o700 if entry.isdir() else 0o600)
        return entry

    archive = f"{name}.tar.gz"
    fd = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as packing:
            packing.add(f"/proc/self/fd/{folder}/{name}", name, filter=counted)
    except (OSError, tarfile.TarError, RecursionError):
        os.unlink(archive, dir_fd=folder)
        return name
    with suppress(OSError, RecursionError):  # what cannot be removed is there twice
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        (import_module("shutil").rmtree if is_folder else os.unlink)(name, dir_fd=folder)
    return archive
