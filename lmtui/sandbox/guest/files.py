"""Reading, writing and listing files of the workspace."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from . import beneath, survey
from .beneath import Missing, Refused, Root
from .protocol import MAX_UPLOAD_BYTES, Message

MAX_READ_BYTES = 16_777_216
_MAX_HASHED_BYTES = 67_108_864
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS)


def read(root: Root, path: str, max_bytes: int) -> tuple[Message, bytes]:
    """Return a file's size, permission bits and hash, and its bytes from the start."""
    fd, _ = root.open_file(path)
    try:
        info = os.fstat(fd)
        data = _read_up_to(fd, min(max_bytes, MAX_READ_BYTES))
    except OSError as error:
        raise Refused(beneath.explain(error, path)) from error
    finally:
        os.close(fd)
    is_whole = len(data) >= info.st_size
    digest = _sha256(data) if is_whole else ""
    size = len(data) if is_whole else info.st_size
    return {"size": size, "mode": stat.S_IMODE(info.st_mode), "sha256": digest}, data


def real_paths(root: Root, paths: list[str]) -> Message:
    """Return the real path of each; what is not there is placed in its real folder."""
    return {"paths": [_real(root, path) for path in paths]}


def _real(root: Root, path: str) -> str:
    left: list[str] = []
    here = path
    while True:
        try:
            fd, real = root.open(here, getattr(os, "O_PATH", os.O_RDONLY))
        except Missing:
            here, _, name = here.rstrip("/").rpartition("/")
            left.insert(0, name)
            if not name:
                return path
        else:
            os.close(fd)
            return _text("/".join([part for part in (real if real != "." else "", *left) if part]))


def write(root: Root, path: str, data: bytes, expect_sha256: str | None) -> Message:
    """Replace or create a file in one step; the temporary file is in the same folder."""
    if len(data) > MAX_UPLOAD_BYTES:
        raise Refused(f"{path}: more than {MAX_UPLOAD_BYTES} bytes at once")
    if path.rstrip("/") != path or path.rsplit("/", 1)[-1] in ("", ".", ".."):
        raise Refused(f"{path or '.'}: not a file name")
    _refuse_what_is_run(path)
    target, mode = _existing(root, path, expect_sha256)
    _refuse_what_is_run(target)
    parent, _, name = target.rpartition("/")
    if mode is None:
        _make_folders(root, parent)
    with root.opened(parent, _FOLDER) as (folder, _):
        try:
            _replace(folder, name, data, mode, is_new=expect_sha256 == "")
        except OSError as error:
            raise Refused(beneath.explain(error, path)) from error
    return {}


def make_directory(root: Root, path: str) -> Message:
    """Make a folder and its parents; `made` tells whether it was missing."""
    _refuse_what_is_run(path)
    return {"made": _make_folders(root, path)}


def list_directory(root: Root, path: str, depth: int, max_entries: int) -> Message:
    """List a folder, folders first, each followed by what is in it down to `depth`."""
    entries: list[list[object]] = []
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as (folder, real):
        for entry in _entries(folder, real, depth):
            entries.append(entry)
            if len(entries) >= max_entries:
                break
    return {"entries": entries}


def _entries(folder: int, prefix: str, depth: int) -> Iterator[list[object]]:
    try:
        with os.scandir(folder) as found:
            sorted_entries = sorted(found, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
    except OSError:
        return  # a folder that may not be read, or went away, has no entries
    for entry in sorted_entries:
        if beneath.is_protected(entry.name):
            continue
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        kind = _kind(info.st_mode)
        yield [_text(path), kind, info.st_size if kind == "file" else 0]
        if kind == "dir" and depth > 1:
            try:
                inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                continue
            try:
                yield from _entries(inner, path, depth - 1)
            finally:
                os.close(inner)


def _refuse_what_is_run(path: str) -> None:
    if survey.is_run_outside(path):
        raise Refused(f"{path} is protected: programs outside the sandbox run what it says; tell the user what to put there")


def _sha256(data: bytes) -> str:
    return str(import_module("hashlib").sha256(data).hexdigest())  # imported late: most starts read no file


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "dir"
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_ISREG(mode) else "other"


def _read_up_to(fd: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0:
        piece = os.read(fd, min(limit, 1_048_576))
        if not piece:
            break
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _existing(root: Root, path: str, expect_sha256: str | None) -> tuple[str, int | None]:
    """Return where to write (a link inside the workspace is followed) and the mode to keep, None for a new file."""
    if not _exists(root, path):
        if expect_sha256:
            raise Refused(f"{path} does not exist any more: read it again")
        return path, None
    if expect_sha256 == "":
        raise Refused(f"{path} exists already")
    fd, real = root.open_file(path)
    try:
        info = os.fstat(fd)
        if expect_sha256 is not None and _hash(fd) != expect_sha256:
            raise Refused(f"{path} changed since it was read: read it again")
    finally:
        os.close(fd)
    return real, stat.S_IMODE(info.st_mode) & 0o777


def _exists(root: Root, path: str) -> bool:
    """Tell whether there is something at a path; a dangling link, or one that leads out, is refused."""
    try:
        fd, _ = root.open(path, getattr(os, "O_PATH", os.O_RDONLY))
    except Missing as missing:
        parent, _, name = path.rpartition("/")
        try:
            with root.opened(parent, _FOLDER) as (folder, _):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (OSError, Refused):
            return False
        raise Refused(f"{path} is a symbolic link to something that does not exist") from missing
    os.close(fd)
    return True


def _hash(fd: int) -> str:
    return _sha256(_read_up_to(fd, _MAX_HASHED_BYTES))


def _make_folders(root: Root, path: str) -> bool:
    """Make a folder and its parents one by one below the root; tell whether the last was missing."""
    beneath.check_path(path)
    made = False
    so_far = ""
    for part in [part for part in path.split("/") if part not in ("", ".")]:
        with root.opened(so_far, _FOLDER) as (folder, _):
            so_far = f"{so_far}/{part}" if so_far else part
            try:
                os.mkdir(part, 0o777, dir_fd=folder)  # the umask takes its part
                made = True
            except FileExistsError:
                made = False
            except OSError as error:
                raise Refused(beneath.explain(error, so_far)) from error
    with root.opened(so_far, _FOLDER):
        return made


def _replace(folder: int, name: str, data: bytes, mode: int | None, *, is_new: bool) -> None:
    temporary = f".lmtui-{os.urandom(6).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o666, dir_fd=folder)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if mode is not None:
                os.fchmod(fd, mode)
            os.fsync(fd)
        finally:
            os.close(fd)
        if is_new and _is_linked(folder, temporary, name):
            os.unlink(temporary, dir_fd=folder)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        _remove(folder, temporary)
        raise


def _is_linked(folder: int, temporary: str, name: str) -> bool:
    """Give the file its name where there is none yet: a link, unlike a rename, does not replace what came in between.

    Where the file system has no hard links (exFAT, folders shared with a virtual machine), the name is taken and left empty,
    for a rename to fill.
    """
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder))
        return False
    return True


def _remove(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
