"""Moves what a command made and programs outside would run to `.lmagent/quarantine`, and packs it there.

Runs in the guard, with every other process of the workspace stopped.  Everything goes through descriptors that follow no link:
a name that is exchanged for a link meanwhile leads nowhere.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from .beneath import Refused

QUARANTINE = ".lmagent/quarantine"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME = 40
_MAX_PACKED_BYTES = 64 << 20
_MAX_PACKED_FILES = 20_000


class _TooMuch(Exception):
    """There is more than an archive may hold."""


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
        packed = _packed(folder, target)
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
            Path(f"/proc/self/fd/{fd}").chmod(stat.S_IMODE(now) | mode)  # of this inode: the descriptor is no link
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


def _packed(folder: int, name: str) -> str:
    """Turn what was moved into an archive and return its name; what is too large stays as it is."""
    archive = f"{name}.tar.gz"
    fd = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with (
            os.fdopen(fd, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as packing,
        ):
            _Packer(packing).add(folder, name)
        _remove(folder, name)
    except (OSError, tarfile.TarError, _TooMuch):
        with suppress(FileNotFoundError):
            os.unlink(archive, dir_fd=folder)
        return name
    return archive


class _Packer:
    """Adds a tree to an archive, by descriptors, and counts what it adds; pipes, sockets and devices are left out."""

    def __init__(self, packing: tarfile.TarFile) -> None:
        self._packing = packing
        self._files_left = _MAX_PACKED_FILES
        self._bytes_left = _MAX_PACKED_BYTES

    def add(self, folder: int, name: str) -> None:
        """Add what is called `name` in a folder.

        Raises:
            _TooMuch: the limits are reached.
            OSError: it cannot be read.
        """
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            self._entry(folder, name, name)
            return
        make_accessible(folder, name, 0o700)
        for where, inner, names, fd in os.fwalk(name, dir_fd=folder, follow_symlinks=False, onerror=_raise):
            self._put(tarfile.DIRTYPE, where, os.fstat(fd))
            for each in inner:
                if stat.S_ISDIR(os.stat(each, dir_fd=fd, follow_symlinks=False).st_mode):
                    make_accessible(fd, each, 0o700)
                else:
                    self._entry(fd, each, f"{where}/{each}")
            for each in names:
                self._entry(fd, each, f"{where}/{each}")

    def _entry(self, parent: int, name: str, path: str) -> None:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(facts.st_mode):
            self._put(tarfile.SYMTYPE, path, facts, link=os.readlink(name, dir_fd=parent))
        elif stat.S_ISREG(facts.st_mode):
            make_accessible(parent, name, 0o600)
            with os.fdopen(os.open(name, _FILE, dir_fd=parent), "rb") as file:
                opened = os.fstat(file.fileno())
                if stat.S_ISREG(opened.st_mode):
                    self._put(tarfile.REGTYPE, path, opened, file)

    def _put(self, kind: bytes, path: str, facts: os.stat_result, file: BinaryIO | None = None, link: str = "") -> None:
        entry = tarfile.TarInfo(path)
        entry.type, entry.linkname, entry.mode, entry.mtime = kind, link, stat.S_IMODE(facts.st_mode), int(facts.st_mtime)
        entry.size = facts.st_size if file is not None else 0
        self._files_left -= 1
        self._bytes_left -= entry.size
        if self._files_left < 0 or self._bytes_left < 0:
            raise _TooMuch
        self._packing.addfile(entry, file)


def _raise(error: OSError) -> None:
    raise error


def _remove(folder: int, name: str) -> None:
    """Remove what was packed, by descriptors too."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)
