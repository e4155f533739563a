"""What instances of the sandbox must protect or hide, found by a walk over names that is cheap to repeat.

Runs in the guard.  Nothing is opened but folders, and no link is followed.  A folder whose status did not change (ctime, which
no program can set) is not read again.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from .protocol import Message
from .quarantine import make_accessible
from .survey import RUN_OUTSIDE, plain_name

DEPENDENCIES = frozenset((b"node_modules", b".venv", b"venv", b"__pycache__", b".tox", b".mypy_cache"))
_OWN = (b".git", b".lmagent")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_READ_ONLY = 48
_MAX_READ_ONLY_DEPTH = 5
_MAX_MASKED = 300
_MAX_FOLDERS = 100_000
_MAX_SECONDS = 5.0
_CLOCK_STEP_NS = 20_000_000  # how late a change may get the time of the one before it
_NOTHING = re.compile(rb"(?!)")

_ANYTHING = b"\0\0\0"  # a name that no file has: what matches it in a folder matches all that is there

Masked = tuple[bytes, bool, bool, int]
Protected = tuple[bytes, int, int]


class _Folder:
    """What one folder held when it was read."""

    __slots__ = ("inner", "masked", "protected", "stamp")

    def __init__(self, stamp: tuple[int, ...]) -> None:
        self.stamp = stamp
        self.inner: list[bytes] = []
        self.protected: list[Protected] = []
        self.masked: list[Masked] = []


class Layout:
    """Knows the folders of a workspace, or of a folder that was added to it; one for each.

    Rules name what is in an added folder by its whole path; one that forbids holds there by the path below the folder too.
    """

    def __init__(self, root: str, *, is_added: bool = False) -> None:
        self._root = os.fsencode(root)
        self._whole = self._root + b"/" if is_added else b""
        self._known: dict[bytes, _Folder] = {}
        self._expressions: tuple[str, str, str] = ("", "", "")
        self._denied = self._secret = self._shown = _NOTHING
        self._met: dict[int, tuple[int, int, bool]] = {}  # masked files by inode: size, time, and whether denied

    def look(self, denied: str, secret: str, shown: str) -> Message:
        """Walk the workspace.

        Args:
            denied: an expression for the paths that no process may see, in all folders.
            secret: another, for folders that are not of dependencies.
            shown: another, for those of them that are not masked.

        Returns:
            `read_only`: paths in hex, each with its device and inode; `masked`: likewise, with whether it is a folder, whether
            it is denied, and its inode; `git` and `lmagent`: what these are; `stamp`: a text that changes when git's own files
            do; `is_cut`: not everything was seen.
        """
        if (denied, secret, shown) != self._expressions:
            self._expressions = (denied, secret, shown)
            self._denied, self._secret, self._shown = map(_compiled, self._expressions)
            self._known.clear()
            self._met.clear()
        protected = [self._identity(b".git")] if self._kind(b".git") in ("folder", "file") else []
        masked: dict[Masked, None] = {}
        seen: dict[bytes, _Folder] = {}
        folders: deque[tuple[bytes, int, bool]] = deque([(b"", 0, False)])
        deadline = time.monotonic() + _MAX_SECONDS
        is_cut = False
        while folders:
            if len(seen) >= _MAX_FOLDERS or time.monotonic() > deadline:
                is_cut = True
                break
            path, depth, is_dependency = folders.popleft()
            folder = self._folder(path, is_dependency=is_dependency)
            if folder is None:
                continue
            seen[path] = folder
            if depth <= _MAX_READ_ONLY_DEPTH and not is_dependency:
                protected += folder.protected
            masked.update(dict.fromkeys(folder.masked))
            for name in folder.inner:
                is_inner_dependency = is_dependency or name.rpartition(b"/")[2] in DEPENDENCIES
                if denied or not is_inner_dependency:
                    folders.append((name, depth + 1, is_inner_dependency))
        self._known = seen
        hidden = _outermost(masked)
        return {
            "read_only": [[path.hex(), *identity] for path, *identity in protected[:_MAX_READ_ONLY]],
            "masked": [[path.hex(), *facts] for path, *facts in hidden[:_MAX_MASKED]],
            "is_cut": is_cut or len(hidden) > _MAX_MASKED,
            "git": self._kind(b".git"),
            "lmagent": self._kind(b".lmagent"),
            "stamp": self._git_stamp() if masked else "",
        }

    def _folder(self, path: bytes, *, is_dependency: bool) -> _Folder | None:
        full = self._root + b"/" + path
        try:
            stamp = _stamp(os.lstat(full))
            known = self._known.get(path)
            if known is not None and known.stamp == stamp:
                return known
            began_ns = time.time_ns()
            found = self._read(path, full, stamp, is_dependency=is_dependency)
        except OSError:
            return None  # it is gone, or may not be read: then nothing inside may read it either
        if stamp[-1] > began_ns - _CLOCK_STEP_NS:
            found.stamp = ()  # it may change once more without another time
        return found

    def _read(self, path: bytes, full: bytes, stamp: tuple[int, ...], *, is_dependency: bool) -> _Folder:
        found = _Folder(stamp)
        try:
            fd = os.open(full, _FOLDER)
        except PermissionError:  # who owns it could make it readable, or read in it what has a known name
            make_accessible(None, full, 0o700)
            fd = os.open(full, _FOLDER)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    where = path + b"/" + name if path else name
                    if where in _OWN:
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    self._entry(found, where, name, entry, is_folder=is_folder, is_dependency=is_dependency)
        finally:
            os.close(fd)
        return found

    def _entry(
        self, found: _Folder, path: bytes, name: bytes, entry: os.DirEntry[str], *, is_folder: bool, is_dependency: bool
    ) -> None:
        if name.startswith(b".") or not name.isascii():
            plain = plain_name(entry.name)
            if (plain == ".git" or plain in RUN_OUTSIDE) and (is_folder or entry.is_file(follow_symlinks=False)):
                with suppress(OSError):
                    found.protected.append(self._identity(path))
                if plain == ".git":
                    return
        is_link = entry.is_symlink()
        leads_to_folder = is_folder or (is_link and any(facts[1] for facts in self._targets(path, is_denied=False)))
        text = path + b"/" if leads_to_folder else path
        is_denied = self._is_denied(text, is_folder=leads_to_folder)
        if self._whole:
            is_denied = is_denied or self._is_denied(self._whole + text, is_folder=leads_to_folder)
        moved = None if is_folder or is_link else self._moved(path, entry.inode())
        if moved is not None:
            found.masked.append((path, False, moved, entry.inode()))
        elif is_denied or (not is_dependency and self._secret.match(text) and not self._shown.match(self._whole + text)):
            found.masked += (
                self._targets(path, is_denied=is_denied) if is_link else [(path, is_folder, is_denied, entry.inode())]
            )
            if not leads_to_folder:
                self._remember(path, is_denied=is_denied)
        elif is_folder:
            found.inner.append(path)

    def _is_denied(self, text: bytes, *, is_folder: bool) -> bool:
        return bool(self._denied.match(text) or (is_folder and self._denied.match(text + _ANYTHING)))

    def _remember(self, path: bytes, *, is_denied: bool) -> None:
        """Remember a masked file, so that it stays masked under another name; who cannot read it cannot change it either."""
        with suppress(OSError):
            facts = os.lstat(self._root + b"/" + path)
            if stat.S_ISREG(facts.st_mode) and facts.st_size:
                self._met[facts.st_ino] = (facts.st_size, facts.st_mtime_ns, is_denied)

    def _moved(self, path: bytes, inode: int) -> bool | None:
        """Tell of a file that was masked under another name whether it is denied; None where it is not such a file."""
        if inode not in self._met:
            return None
        *then, is_denied = self._met[inode]
        with suppress(OSError):
            facts = os.lstat(self._root + b"/" + path)
            return is_denied if [facts.st_size, facts.st_mtime_ns] == then else None
        return None

    def _targets(self, link: bytes, *, is_denied: bool) -> list[Masked]:
        """Return what a link with a masked name leads to, where that is in the workspace."""
        root = os.path.realpath(self._root)
        real = os.path.realpath(root + b"/" + link)
        relative = real.removeprefix(root + b"/")
        if relative == real or relative.split(b"/")[0] in _OWN:
            return []
        try:
            facts = os.lstat(real)
        except OSError:
            return []
        is_loop = stat.S_ISLNK(facts.st_mode)
        return [] if is_loop else [(relative, stat.S_ISDIR(facts.st_mode), is_denied, facts.st_ino)]

    def _identity(self, path: bytes) -> Protected:
        facts = os.lstat(self._root + b"/" + path)
        return path, facts.st_dev, facts.st_ino

    def _kind(self, name: bytes) -> str:
        try:
            mode = os.lstat(self._root + b"/" + name).st_mode
        except OSError:
            return "none"
        kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "link"))
        return next((kind for test, kind in kinds if test(mode)), "other")

    def _git_stamp(self) -> str:
        stamps: list[object] = []
        for name in (b"index", b"HEAD", b"packed-refs", b"logs/HEAD", b"refs/heads"):
            with suppress(OSError):
                stamps.append((name.decode(), *_stamp(os.lstat(self._root + b"/.git/" + name))))
        return str(hash(tuple(stamps)))


def _outermost(masked: Iterable[Masked]) -> list[Masked]:
    """Leave out what is in a masked folder: it cannot be seen there anyway."""
    found: list[Masked] = []
    outer = b""
    for path, is_folder, is_denied, inode in sorted(masked, key=lambda each: (each[0] + b"/", not each[2])):
        if (outer and path.startswith(outer + b"/")) or (found and found[-1][0] == path):
            continue
        outer = path if is_folder else outer
        found.append((path, is_folder, is_denied, inode))
    return found


def _compiled(source: str) -> re.Pattern[bytes]:
    return re.compile(source.encode()) if source else _NOTHING


def _stamp(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_ctime_ns)
