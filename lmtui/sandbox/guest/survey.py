"""What lies in the workspace that programs outside would obey: git folders, and what editors, shells and agents run or read.

A walk over names, in a keeper.  Nothing is opened and no link is followed.  What is found is judged outside.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import unicodedata
from collections import deque

from .protocol import Message

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

    @property
    def is_over(self) -> bool:
        """Tell whether the walk may go no further."""
        return self.entries_left <= 0 or len(self.found) >= _MAX_FOUND or time.monotonic() > self.deadline

    def add(self, path: bytes, kind: str, *, is_fresh: bool) -> None:
        """Note something."""
        try:
            inode = os.lstat(self.root + b"/" + path).st_ino
        except OSError:
            return  # it is gone already
        self.found.append([path.hex(), kind, is_fresh, inode])


def look(root: str, since_ns: int, max_entries: int, max_seconds: float) -> Message:
    """Return what there is as [path in hex, kind, whether it changed since, inode number], folders near the root first.

    Kinds: `git` (a folder `.git`), `gitconfig` (the same, where what git obeys changed), `gitfile` (a `.git` that is no
    folder), `bare` (a folder that is a repository itself), `run` and `read`.  `is_cut` tells that not everything was seen.
    """
    walk = _Walk(os.fsencode(root), since_ns, max_entries, time.monotonic() + max_seconds)
    while walk.folders:
        if walk.is_over:
            walk.is_cut = True
            break
        _folder(walk, walk.folders.popleft())
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


def _folder(walk: _Walk, prefix: bytes) -> None:
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
            has_git |= _entry(walk, prefix, entry, inner)
    is_bare = b"HEAD" in marks and (b"commondir" in marks or {b"objects", b"refs"} <= marks)
    if is_bare and not (has_git and not prefix):
        base = walk.root + b"/" + prefix + b"/"
        is_fresh = any(_is_fresh(base + name, walk.since_ns) for name in (b".", *marks, *_GIT_PARTS))
        walk.add(prefix, "bare", is_fresh=is_fresh)
        if prefix:
            return
    walk.folders.extend(inner)


def _entry(walk: _Walk, prefix: bytes, entry: os.DirEntry[bytes], inner: list[bytes]) -> bool:
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
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | 0o700)
        finally:
            os.close(fd)
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
