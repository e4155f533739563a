"""Reading, writing and listing files of the workspace, and the names of what in it programs outside would obey."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from . import beneath
from .beneath import Missing, Refused, Root
from .protocol import MAX_UPLOAD_BYTES, Message
from .settings import read_table

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
            return beneath.shown("/".join([part for part in (real if real != "." else "", *left) if part]))


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
        make_folders(root, parent)
    with root.opened(parent, _FOLDER) as (folder, _):
        try:
            _replace(folder, name, data, mode, is_new=expect_sha256 == "")
        except OSError as error:
            raise Refused(beneath.explain(error, path)) from error
    return {}


def make_directory(root: Root, path: str) -> Message:
    """Make a folder and its parents; `is_so` tells whether it was missing."""
    _refuse_what_is_run(path)
    return {"is_so": make_folders(root, path)}


def entries(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
    """Yield the path, the kind and the entry of what is in an open folder, folders first, down to `depth`."""
    try:
        with os.scandir(folder) as found:
            sorted_entries = sorted(found, key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
    except OSError:
        return  # a folder that may not be read, or went away, has no entries
    for entry in sorted_entries:
        if beneath.is_protected(entry.name):
            continue
        path, kind = f"{prefix}/{entry.name}" if prefix else entry.name, _kind(entry)
        yield path, kind, entry
        if kind == "dir" and depth > 1:
            try:
                inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                continue
            try:
                yield from entries(inner, path, depth - 1)
            finally:
                os.close(inner)


def _refuse_what_is_run(path: str) -> None:
    if is_run_outside(path):
        raise Refused(f"{path} is protected: programs outside the sandbox run what it says; tell the user what to put there")


def _sha256(data: bytes) -> str:
    return str(import_module("hashlib").sha256(data).hexdigest())  # imported late: most starts read no file


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "dir"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _read_up_to(fd: int, limit: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        return file.read(limit)


def _existing(root: Root, path: str, expect_sha256: str | None) -> tuple[str, int | None]:
    """Return where to write (a link inside the workspace is followed) and the mode to keep, None for a new file."""
    try:
        fd, real = root.open_file(path)
    except Missing as missing:
        if _is_dangling(root, path):
            raise Refused(f"{path} is a symbolic link to something that does not exist") from missing
        if expect_sha256:
            raise Refused(f"{path} does not exist any more: read it again") from missing
        return path, None
    try:
        info = os.fstat(fd)
        if expect_sha256 == "":
            raise Refused(f"{path} exists already")
        if expect_sha256 is not None and _sha256(_read_up_to(fd, _MAX_HASHED_BYTES)) != expect_sha256:
            raise Refused(f"{path} changed since it was read: read it again")
    finally:
        os.close(fd)
    return real, stat.S_IMODE(info.st_mode) & 0o777


def _is_dangling(root: Root, path: str) -> bool:
    """Tell whether a path at which there is nothing has a name all the same: a link that leads to nothing."""
    parent, _, name = path.rpartition("/")
    with suppress(OSError, Refused), root.opened(parent, _FOLDER) as (folder, _):
        os.stat(name, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def make_folders(root: Root, path: str, *, makes_way: bool = False) -> bool:
    """Make a folder and its parents one by one below the root; tell whether the last was missing.

    With `makes_way` a file or a link in the place of a folder is removed.
    """
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
                if makes_way and not stat.S_ISDIR(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.unlink(part, dir_fd=folder)
                    os.mkdir(part, 0o777, dir_fd=folder)
            except OSError as error:
                raise Refused(beneath.explain(error, so_far)) from error
    with root.opened(so_far, _FOLDER):
        return made


def _replace(folder: int, name: str, data: bytes, mode: int | None, *, is_new: bool) -> None:
    temporary = f".lmtui-{os.urandom(6).hex()}.tmp"
    try:
        beneath.create_file(folder, temporary, data, mode, lasts=True)
        if is_new and _is_linked(folder, temporary, name):
            os.unlink(temporary, dir_fd=folder)
        else:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
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
        beneath.create_file(folder, name, b"")
        return False
    return True


RUN_OUTSIDE, READ_OUTSIDE = (
    frozenset(name for each, name in read_table("outside") if each == kind) for kind in ("run", "read")
)


def plain_name(name: str) -> str:
    """Return a name as the most lenient file system compares it: case, width and invisible characters aside."""
    if name.isascii():
        return name.lower().rstrip(". ")
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().rstrip(". ")


def is_run_outside(path: str) -> bool:
    """Tell whether a path names something that programs outside run, or something in it."""
    return any(plain_name(part) in RUN_OUTSIDE for part in path.split("/"))
