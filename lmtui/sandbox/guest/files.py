"""Reading, writing and listing files of the workspace, and a survey of what in it programs outside would obey.

The survey finds git folders, and what editors, shells and agents run or read.  It is a walk over names: nothing is opened and
no link is followed.  What is found is judged outside.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import unicodedata
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from . import beneath
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
    """Make a folder and its parents; `made` tells whether it was missing."""
    _refuse_what_is_run(path)
    return {"made": make_folders(root, path)}


def list_directory(root: Root, path: str, depth: int, max_entries: int) -> Message:
    """List a folder, folders first, each followed by what is in it down to `depth`."""
    found: list[list[object]] = []
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as (folder, real):
        for inner, kind, entry in entries(folder, real, depth):
            with suppress(OSError):
                found.append([beneath.shown(inner), kind, entry.stat(follow_symlinks=False).st_size if kind == "file" else 0])
            if len(found) >= max_entries:
                break
    return {"entries": found}


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


# Run by a program outside without asking, or after a question that many answer in passing.
RUN_OUTSIDE = frozenset((".mcp.json", ".vscode", ".envrc", ".idea"))
# Read as instructions or settings by agents, git, shells and package managers.
READ_OUTSIDE = frozenset((
    "agents.md", "claude.md", "gemini.md", "agents.override.md", "claude.local.md", ".lmagent.md", ".claude", ".cursor",
    ".cursorrules", ".windsurf", ".windsurfrules", ".gemini", ".codex", ".agents", ".aider.conf.yml", ".devcontainer",
    ".devcontainer.json", ".zed", ".fleet", ".run", ".theia", ".gitmodules", ".gitattributes", ".gitconfig", ".lfsconfig",
    ".pre-commit-config.yaml", ".husky", ".lefthook.yml", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout",
    ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc",
    ".login", ".inputrc", ".direnvrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc", ".ripgreprc", ".vimrc",
    ".nvimrc", ".exrc", ".nvim.lua", ".dir-locals.el", ".gdbinit", ".lldbinit", ".tool-versions", ".mise.toml", "mise.toml",
    ".autoenv", ".autoenv.zsh",
))  # fmt: skip
_VISIBLE = frozenset(name.encode() for name in READ_OUTSIDE if not name.startswith("."))
_GIT_MARKS = frozenset((b"HEAD", b"objects", b"refs", b"commondir"))
_GIT_PARTS = (b"config", b"config.worktree", b"commondir", b"hooks", b"info/attributes", b"objects/info/alternates")
_MAX_FOUND = 2000
_MAX_INNER = 500


class _Walk:
    """How far a walk has come."""

    def __init__(self, root: bytes, since_ns: int, entries_left: int, deadline: float) -> None:
        self.root, self.since_ns = root, since_ns
        self.entries_left, self.deadline = entries_left, deadline
        self.found: list[list[object]] = []
        self.folders = deque([b""])
        self.is_cut = False

    def add(self, path: bytes, kind: str, *, is_fresh: bool) -> None:
        """Note something."""
        try:
            inode = os.lstat(self.root + b"/" + path).st_ino
        except OSError:
            return  # it is gone already
        self.found.append([path.hex(), kind, is_fresh, inode])


def survey(root: str, since_ns: int, max_entries: int, max_seconds: float) -> Message:
    """Return what there is as [path in hex, kind, whether it changed since, inode number], folders near the root first.

    Kinds: `git` (a folder `.git`), `gitconfig` (the same, where what git obeys changed), `gitfile` (a `.git` that is no
    folder), `bare` (a folder that is a repository itself), `run` and `read`.  `is_cut` tells that not everything was seen.
    """
    walk = _Walk(os.fsencode(root), since_ns, max_entries, time.monotonic() + max_seconds)
    while walk.folders:
        if walk.entries_left <= 0 or len(walk.found) >= _MAX_FOUND or time.monotonic() > walk.deadline:
            walk.is_cut = True
            break
        _survey_folder(walk, walk.folders.popleft())
    return {"found": walk.found, "is_cut": walk.is_cut}


def plain_name(name: str) -> str:
    """Return a name as the most lenient file system compares it: case, width and invisible characters aside."""
    if name.isascii():
        return name.lower().rstrip(". ")
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().rstrip(". ")


def is_run_outside(path: str) -> bool:
    """Tell whether a path names something that programs outside run, or something in it."""
    return any(plain_name(part) in RUN_OUTSIDE for part in path.split("/"))


def _survey_folder(walk: _Walk, prefix: bytes) -> None:
    marks: set[bytes] = set()
    inner: list[bytes] = []
    has_git = False
    try:
        entries = _scan(walk.root, prefix)
    except OSError as error:
        is_mask = error.errno == errno.EROFS  # its mode cannot be changed: it is mounted read-only, and empty
        walk.is_cut |= not is_mask and os.path.lexists(walk.root + b"/" + prefix)
        return
    with entries:
        for entry in entries:
            walk.entries_left -= 1
            if entry.name in _GIT_MARKS:
                marks.add(entry.name)
            has_git |= _survey_entry(walk, prefix, entry, inner)
    is_bare = b"HEAD" in marks and (b"commondir" in marks or {b"objects", b"refs"} <= marks)
    if is_bare and not (has_git and not prefix):
        base = walk.root + b"/" + prefix + b"/"
        is_fresh = any(_is_fresh(base + name, walk.since_ns) for name in (b".", *marks, *_GIT_PARTS))
        walk.add(prefix, "bare", is_fresh=is_fresh)
        if prefix:
            return
    walk.folders.extend(inner)


def _survey_entry(walk: _Walk, prefix: bytes, entry: os.DirEntry[bytes], inner: list[bytes]) -> bool:
    """Judge an entry by its name; tell whether it is a `.git`."""
    raw = entry.name
    is_folder = entry.is_dir(follow_symlinks=False)
    if not raw.startswith(b".") and raw.isascii() and raw.lower() not in _VISIBLE:  # nearly all of them
        if is_folder:
            inner.append(prefix + b"/" + raw if prefix else raw)
        return False
    name, path = plain_name(os.fsdecode(raw)), prefix + b"/" + raw if prefix else raw
    full = walk.root + b"/" + path
    if name == ".git":
        parts = (
            [full, *(full + b"/" + part for part in _GIT_PARTS), *(hook for hook, _ in _inside(full + b"/hooks"))]
            if is_folder
            else [full]
        )
        are_fresh = [_is_fresh(part, walk.since_ns) for part in parts]
        walk.add(path, "git" if is_folder else "gitfile", is_fresh=any(are_fresh))
        if any(are_fresh[1:]):
            walk.add(path, "gitconfig", is_fresh=True)
        return True
    if path == b".lmagent":
        return False
    if name in RUN_OUTSIDE or name in READ_OUTSIDE:
        is_fresh = _is_fresh(full, walk.since_ns) or (is_folder and _holds_fresh(full, walk.since_ns))
        walk.add(path, "run" if name in RUN_OUTSIDE else "read", is_fresh=is_fresh)
    if is_folder and name not in RUN_OUTSIDE:
        inner.append(path)
    return False


def _scan(root: bytes, prefix: bytes) -> os._ScandirIterator[bytes]:
    """Open a folder; one that was made unreadable is made readable first (who owns it could do so later as well)."""
    path = root + b"/" + prefix
    try:
        return os.scandir(path)
    except PermissionError:
        import_module(".quarantine", __package__).make_accessible(None, path, 0o700)
        return os.scandir(path)


def _holds_fresh(folder: bytes, since_ns: int) -> bool:
    """Tell whether something in a folder changed since; where there is too much to see, say yes."""
    queue, left = deque([folder]), _MAX_INNER
    while queue:
        for path, is_folder in _inside(queue.popleft()):
            left -= 1
            if left <= 0 or _is_fresh(path, since_ns):
                return True
            if is_folder:
                queue.append(path)
    return False


def _inside(folder: bytes) -> list[tuple[bytes, bool]]:
    """Return what lies in a folder, and which of it are folders."""
    try:
        with os.scandir(folder) as entries:
            return [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []


def _is_fresh(path: bytes, since_ns: int) -> bool:
    try:
        return os.lstat(path).st_ctime_ns >= since_ns
    except OSError:
        return False
