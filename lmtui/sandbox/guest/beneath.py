"""The only way to files of the workspace: opened below its root, never through a link that leads out, never protected names.

The kernel does it where it can (openat2); elsewhere each component is opened on its own without following links.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import linux

PROTECTED = (".git", ".lmagent")
MAX_PATH_BYTES = 4096
_MAX_LINKS = 40
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

Opener = Callable[[int, str, int], "tuple[int, str]"]


class Refused(Exception):
    """A path or an operation is refused; the text is for the model."""


class Missing(Refused):
    """There is nothing at the path."""


def is_protected(path: str) -> bool:
    """Tell whether a path names `.git` or `.lmagent`, or something in them, in any spelling."""
    return any(unicodedata.normalize("NFKC", part).casefold() in PROTECTED for part in path.split("/"))


class Root:
    """The workspace's folder, held open: a rename of it outside changes nothing here."""

    def __init__(self, folder: str, opener: Opener | None = None) -> None:
        self.fd = os.open(folder, _FOLDER)
        self.path = os.path.realpath(folder)
        self._opener = opener or _choose_opener(self.fd)

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
            fd, real = self._opener(self.fd, path or ".", flags | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise Missing(explain(error, path)) from error
        except OSError as error:
            raise Refused(explain(error, path)) from error
        relative = real if not real.startswith("/") else self._relative(real)
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
    }.get(error.errno or 0, f"{name}: {error.strerror or error}")


def by_kernel(root: int, path: str, flags: int) -> tuple[int, str]:
    """Open with openat2 and ask the kernel for the real path."""
    fd = linux.open_beneath(root, path, flags)
    try:
        return fd, os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        os.close(fd)
        raise


def by_component(root: int, path: str, flags: int) -> tuple[int, str]:
    """Open one component after the other without following links; links are read and walked the same way."""
    folders: list[tuple[int, str]] = []
    left = [part for part in path.split("/") if part not in ("", ".")]
    if path.endswith(("/", "/.")):
        flags |= os.O_DIRECTORY
    links = 0
    try:
        while left:
            part = left.pop(0)
            here = folders[-1][0] if folders else root
            if part == "..":
                if not folders:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                os.close(folders.pop()[0])
                continue
            target = _link_target(here, part)
            if target is not None:
                links += 1
                if (flags & os.O_NOFOLLOW and not left) or links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                left = [piece for piece in target.split("/") if piece not in ("", ".")] + left
            elif left:
                folders.append((os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here), part))
            else:
                names = [name for _, name in folders] + [part]
                return os.open(part, flags | os.O_NOFOLLOW, dir_fd=here), "/".join(names)
        here = folders[-1][0] if folders else root
        return os.open(".", flags, dir_fd=here), "/".join(name for _, name in folders)
    finally:
        for fd, _ in folders:
            os.close(fd)


def _link_target(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _choose_opener(root: int) -> Opener:
    try:
        fd, _ = by_kernel(root, ".", _FOLDER)
    except OSError:
        return by_component
    os.close(fd)
    return by_kernel
