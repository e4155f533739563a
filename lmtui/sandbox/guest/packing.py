"""Packs what was moved aside into an archive, by descriptors that follow no link.  Imported when there is something to pack."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from contextlib import suppress
from typing import BinaryIO

from .quarantine import make_accessible

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_PACKED_BYTES = 64 << 20
_MAX_PACKED_FILES = 20_000


class _TooMuch(Exception):
    """There is more than an archive may hold."""


def pack(folder: int, name: str) -> str:
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
