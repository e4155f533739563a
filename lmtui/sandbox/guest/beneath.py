"""The only way to files of the workspace: opened below its root, never through a link that leads out, never protected names.

The kernel does it (openat2(2), Linux 5.6).
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from . import linux

PROTECTED = (".git", ".lmagent")
MAX_PATH_BYTES = 4096
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Refused(Exception):
    """A path or an operation is refused; the text is for the model."""


class Missing(Refused):
    """There is nothing at the path."""


def is_protected(path: str) -> bool:
    """Tell whether a path names `.git` or `.lmagent`, or something in them, in any spelling."""
    return any(unicodedata.normalize("NFKC", part).casefold() in PROTECTED for part in path.split("/"))


class Root:
    """The workspace's folder, held open: a rename of it outside changes nothing here."""

    def __init__(self, folder: str) -> None:
        self.fd = os.open(folder, _FOLDER)
        self.path = os.path.realpath(folder)

    @contextmanager
    def opened(self, path: str, flags: int) -> Iterator[tuple[int, str]]:
        """Open a path for a `with` block and yield its descriptor and its real path relative to the root.

        Raises:
            Refused: it is outside, protected, missing or cannot be opened.
        """
        fd, real = self.open(path, flags)
        try:
            yield fd, real
        finally:
            os.close(fd)

    def open(self, path: str, flags: int) -> tuple[int, str]:
        """Open a path and return its descriptor, which the caller closes, and its real path relative to the root.

        Raises:
            Refused: it is outside, protected, missing or cannot be opened.
        """
        check_path(path)
        if not flags & _O_PATH:  # openat2 refuses these beside O_PATH, where they mean nothing
            flags |= os.O_NOCTTY | os.O_NONBLOCK
        try:
            fd = linux.open_beneath(self.fd, path or ".", flags)
        except FileNotFoundError as error:
            raise Missing(explain(error, path)) from error
        except OSError as error:
            raise Refused(explain(error, path)) from error
        try:
            relative = self._relative(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError as error:
            os.close(fd)
            raise Refused(explain(error, path)) from error
        if relative is None or is_protected(relative):
            os.close(fd)
            raise Refused(f"{path} is protected: lmtui keeps .git and .lmagent to itself")
        return fd, relative

    def open_file(self, path: str) -> tuple[int, str]:
        """Open a regular file for reading; devices, pipes and folders are refused without waiting on them.

        Raises:
            Refused: see `open`, or it is not a regular file.
        """
        fd, real = self.open(path, os.O_RDONLY)
        kind = os.fstat(fd).st_mode
        if stat.S_ISREG(kind):
            return fd, real
        os.close(fd)
        raise Refused(f"{path} is a folder" if stat.S_ISDIR(kind) else f"{path} is not a regular file")

    def _relative(self, real: str) -> str | None:
        """Return a real path relative to the root; the root's own is read again where it was renamed."""
        for _ in range(2):
            if real == self.path:
                return ""
            prefix = self.path.rstrip("/") + "/"
            if real.startswith(prefix):
                return real[len(prefix) :]
            self.path = os.readlink(f"/proc/self/fd/{self.fd}")
        return None


def create_file(folder: int, name: str, data: bytes, mode: int | None = None, *, lasts: bool = False) -> None:
    """Write a file that does not exist, with permission bits or those that the umask leaves; on the disk if it `lasts`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        if mode is not None:
            os.fchmod(fd, mode)
        if lasts:
            os.fsync(fd)


def shown(path: str) -> str:
    """Return a path as it can be in an answer: what is not UTF-8 in it cannot."""
    return os.fsencode(path).decode("utf-8", "replace")


def check_path(path: str) -> None:
    """Refuse a path by its spelling alone.

    Raises:
        Refused: NUL, too long, absolute, upwards out of the workspace, or protected.
    """
    if "\0" in path:
        raise Refused("the path has a NUL character in it")
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError as error:
        raise Refused("the path is not valid text") from error
    if size >= MAX_PATH_BYTES or any(len(os.fsencode(part)) > 255 for part in path.split("/")):
        raise Refused("the path is too long")
    if path.startswith("/"):
        raise Refused(f"{path}: path is outside the workspace")
    depth = 0
    for part in path.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            raise Refused(f"{path}: path is outside the workspace")
    if is_protected(path):
        raise Refused(f"{path} is protected: lmtui keeps .git and .lmagent to itself")


def explain(error: OSError, path: str) -> str:
    """Return what an error means for this path, in words."""
    name = path or "."
    if error.errno == errno.EXDEV:
        return f"{name}: path is outside the workspace (a symbolic link leads out)"
    return {
        errno.ENOENT: f"{name} does not exist",
        errno.ENOTDIR: f"{name}: part of the path is not a folder",
        errno.EISDIR: f"{name} is a folder",
        errno.ELOOP: f"{name}: a symbolic link that may not be followed, or too many of them",
        errno.EACCES: f"{name}: permission denied",
        errno.EPERM: f"{name}: not permitted",
        errno.EROFS: f"{name} is read-only",
        errno.ENOSPC: f"{name}: no space left on the disk",
        errno.EDQUOT: f"{name}: the disk quota is used up",
        errno.ENXIO: f"{name} is not a regular file",
        errno.ENAMETOOLONG: f"{name}: the path is too long",
        errno.EEXIST: f"{name} exists already",
        errno.EFBIG: f"{name}: the file would be too large",
        errno.ENOSYS: f"{name}: the kernel has no openat2; Linux 5.6 or later is needed",
    }.get(error.errno or 0, f"{name}: {error.strerror or error}")
