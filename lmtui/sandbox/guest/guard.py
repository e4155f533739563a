"""The guard: it looks after a workspace from inside a sandbox that runs no other program.

The host asks it for everything that concerns workspace files, so the host never opens a workspace path.

A walk over names finds what other instances must protect or hide, and what programs outside would obey: git folders, and what
editors, shells and agents run or read.  Nothing is opened but folders, no link is followed, and a folder whose status did not
change (ctime, which no program can set) is not read again.  What is found is judged outside.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from . import quarantine
from .beneath import Refused
from .files import READ_OUTSIDE, RUN_OUTSIDE, plain_name
from .linux import FILE_CLOCK
from .protocol import Message

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What in a git folder makes git run something or look elsewhere.  Work that is under way names commands to go on with (`exec`
# lines, drivers): the tools begin none, so it is not theirs.
_EXECUTED_FILES = (b"config", b"config.worktree", b"commondir", b"attributes", b"alternates", b"gitdir")
_EXECUTED = frozenset((*_EXECUTED_FILES, b"hooks", b"rebase-merge", b"rebase-apply", b"sequencer"))
_MAX_EXECUTED_BYTES = 10_000

DEPENDENCIES = frozenset((b"node_modules", b".venv", b"venv", b"__pycache__", b".tox", b".mypy_cache"))
_OWN = (b".git", b".lmagent")
_MAX_READ_ONLY = 48
_MAX_READ_ONLY_DEPTH = 5
_MAX_MASKED = 300
_MAX_FOUND, _MAX_FOUND_BYTES = 2000, 450_000  # in hex they still fit into a frame
_MAX_INNER = 500
_VISIBLE = frozenset(name.encode() for name in READ_OUTSIDE if not name.startswith("."))
_GIT_MARKS = frozenset((b"HEAD", b"objects", b"refs", b"commondir"))
_GIT_PARTS = (b"config", b"config.worktree", b"commondir", b"hooks", b"info/attributes", b"objects/info/alternates")
_MAX_FOLDERS = 100_000
_MAX_SECONDS = 5.0
# How late a change may get the time of the one before it; some file systems count whole seconds, or hundredths of them.
_CLOCK_STEP_NS, _LONG_STEP_NS = 20_000_000, 2_020_000_000
_NOTHING = re.compile(rb"(?!)")

_ANYTHING = b"\0\0\0"  # a name that no file has: what matches it in a folder matches all that is there

Masked = tuple[bytes, bool, bool, int]
Protected = tuple[bytes, int, int]


class _Folder:
    """What one folder held when it was read.

    `inner` are its folders, with the inode number of those that are masked.  `named` is what programs outside would obey, with
    its kind; `marks` show that it is a repository itself.
    """

    __slots__ = ("inner", "marks", "masked", "named", "protected", "stamp")

    def __init__(self, stamp: tuple[int, ...]) -> None:
        self.stamp = stamp
        self.inner: dict[bytes, int | None] = {}
        self.protected: list[Protected] = []
        self.masked: list[Masked] = []
        self.named: dict[bytes, str] = {}
        self.marks: set[bytes] = set()


class Layout:
    """Knows the folders of a workspace, or of a folder that was added to it; one for each.

    Rules name what is in an added folder by its whole path; one that forbids holds there by the path below the folder too.
    """

    def __init__(self, root: str, *, is_added: bool = False, has_mounts: bool = True) -> None:
        self._root = os.fsencode(root)
        self._has_mounts = has_mounts
        self._whole = self._root + b"/" if is_added else b""
        self._known: dict[bytes, _Folder] = {}
        self._is_cut = False  # the last walk did not see everything
        self._covered: frozenset[tuple[bytes, int]] = frozenset()  # masked folders that are older than any command
        self._expressions: tuple[str, str, str] = ("", "", "")
        self._denied = self._secret = self._shown = _NOTHING
        self._met: dict[int, tuple[int, int, bool]] = {}  # masked files by inode: size, time, and whether denied

    def look(self, denied: str, secret: str, shown: str, *, is_first: bool = False) -> Message:
        """Walk the workspace.

        Args:
            denied: an expression for the paths that no process may see, in all folders.
            secret: another, for folders that are not of dependencies.
            shown: another, for those of them that are not masked.
            is_first: no command has run yet.

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
        for path, folder, is_dependency in self._walk(has_dependencies=denied != ""):
            if path.count(b"/") < _MAX_READ_ONLY_DEPTH and not is_dependency:
                protected += folder.protected
            masked.update(dict.fromkeys(folder.masked))
        hidden = _outermost(masked)
        covered = frozenset((path, inode) for path, is_folder, _, inode in hidden[:_MAX_MASKED] if is_folder)
        self._covered = covered if is_first else covered & self._covered
        return {
            "read_only": [[path.hex(), *identity] for path, *identity in protected[:_MAX_READ_ONLY]],
            "masked": [[path.hex(), *facts] for path, *facts in hidden[:_MAX_MASKED]],
            "is_cut": self._is_cut or len(hidden) > _MAX_MASKED,
            "git": self._kind(b".git"),
            "lmagent": self._kind(b".lmagent"),
            "stamp": self._git_stamp() if masked else "",
        }

    def survey(self, since_ns: int) -> Message:
        """Return what there is as [path in hex, kind, whether it changed since, inode number], folders near the root first.

        Kinds: `git` (a folder `.git`), `gitconfig` (the same, where what git obeys changed), `gitfile` (a `.git` that is no
        folder, or a part of the workspace's own that no mount protects), `bare` (a folder that is a repository itself), `run`
        and `read`.  `is_cut` tells that not everything was seen.
        """
        found = [] if self._has_mounts or self._whole else self._executed(since_ns)
        room = _MAX_FOUND_BYTES
        for path, folder, _ in self._walk(surveys=True):
            there = folder.named | ({path: "bare"} if folder.marks else {})
            for each, kind in sorted(there.items(), key=lambda row: row[1] == "read"):  # what is moved away comes first
                rows = list(self._judged(each, kind, folder.marks, since_ns))
                room -= len(each) * len(rows)
                if len(found) >= _MAX_FOUND or room < 0:
                    return {"found": found, "is_cut": True}
                found += rows
        return {"found": found, "is_cut": self._is_cut}

    def _walk(self, *, has_dependencies: bool = True, surveys: bool = False) -> Iterator[tuple[bytes, _Folder, bool]]:
        """Yield the folders and whether they are of dependencies, those near the root first.

        One that `surveys` leaves out what is in bare repositories, and in what programs outside run as a whole.  It looks into
        masked folders that were not there at the first look: the command that made one has no mount over it.
        """
        self._is_cut = False
        if len(self._known) > 2 * _MAX_FOLDERS:
            self._known.clear()
        seen: dict[bytes, _Folder] = {}
        folders = deque([b""])
        deadline = time.monotonic() + _MAX_SECONDS
        while folders:
            if len(seen) >= _MAX_FOLDERS or time.monotonic() > deadline:
                self._is_cut = True
                break
            path = folders.popleft()
            is_dependency = not DEPENDENCIES.isdisjoint(path.split(b"/"))
            if is_dependency and not has_dependencies:
                continue
            folder = self._folder(path, is_dependency=is_dependency)
            if folder is None:
                self._is_cut |= surveys and os.path.lexists(self._root + b"/" + path)
                continue
            seen[path] = self._known[path] = folder
            yield path, folder, is_dependency
            if not surveys:
                folders += [each for each, inode in folder.inner.items() if inode is None]
            elif not folder.marks or not path:
                inner = [each for each in folder.inner.items() if each not in self._covered]
                folders += [each for each, _ in inner if folder.named.get(each) != "run"]
        if surveys and not self._is_cut:
            self._known = seen  # others are gone

    def _executed(self, since_ns: int) -> list[list[object]]:
        """Return what in the workspace's git folder changed and makes git run something; where it is much, the whole folder."""
        found: list[bytes] = []
        folders = [own] if not os.path.islink(own := self._root + b"/.git") else []
        for folder in folders:  # those in it are added
            with suppress(OSError):
                quarantine.make_accessible(None, folder, 0o500)  # git needs no list of it
                entries = list(os.scandir(folder))
                folders += [each.path for each in entries if each.is_dir(follow_symlinks=False)]
                paths = [e.path for e in entries if e.name in _EXECUTED or e.name[:7] == b"BISECT_"]
                found += [p for p in paths if _is_fresh(p, since_ns) or _holds_fresh(p, since_ns)]
        found = found if len(b"".join(found)) <= _MAX_EXECUTED_BYTES else [own]
        return [[path[len(own) - 4 :].hex(), "gitfile", True, 0] for path in found]

    def _judged(self, path: bytes, kind: str, marks: Iterable[bytes], since_ns: int) -> Iterator[list[object]]:
        """Yield the rows of a survey about what has a name, or is a repository."""
        full = self._root + b"/" + path
        try:
            facts = os.lstat(full)
        except OSError:
            return  # it is gone already
        is_folder = stat.S_ISDIR(facts.st_mode)
        obeyed = [full + b"/" + part for part in (*marks, *_GIT_PARTS)] if kind == "bare" else []
        if kind == "git" and is_folder:
            obeyed = [full + b"/" + part for part in _GIT_PARTS]
        is_obeyed = any(_is_fresh(part, since_ns) for part in obeyed)
        is_obeyed = is_obeyed or (kind == "git" and is_folder and _holds_fresh(full + b"/hooks", since_ns))
        is_fresh = is_obeyed or _is_fresh(full, since_ns)
        if kind in ("run", "read") and is_folder:
            is_fresh = is_fresh or _holds_fresh(full, since_ns)
        yield [path.hex(), kind if is_folder or kind != "git" else "gitfile", is_fresh, facts.st_ino]
        if kind == "git" and is_obeyed and (self._has_mounts or path != b".git"):
            yield [path.hex(), "gitconfig", True, facts.st_ino]

    def _folder(self, path: bytes, *, is_dependency: bool) -> _Folder | None:
        full = self._root + b"/" + path
        try:
            stamp = _stamp(os.lstat(full))
            if (known := self._known.get(path)) is not None and known.stamp == stamp:
                return known
            began_ns = time.clock_gettime_ns(FILE_CLOCK)
            found = self._read(path, full, stamp, is_dependency=is_dependency)
        except OSError:
            return None  # it is gone, or may not be read: then nothing inside may read it either
        if stamp[-1] > began_ns - (_CLOCK_STEP_NS if stamp[-1] % 10_000_000 else _LONG_STEP_NS):
            found.stamp = ()  # it may change once more without another time
        return found

    def _read(self, path: bytes, full: bytes, stamp: tuple[int, ...], *, is_dependency: bool) -> _Folder:
        found = _Folder(stamp)
        try:
            fd = os.open(full, _FOLDER)
        except PermissionError:  # who owns it could make it readable, or read in it what has a known name
            quarantine.make_accessible(None, full, 0o700)
            fd = os.open(full, _FOLDER)
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    where = path + b"/" + name if path else name
                    if name in _GIT_MARKS:
                        found.marks.add(name)
                    if where in _OWN:
                        found.named |= {where: "git"} if where == b".git" else {}
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    self._entry(found, where, name, entry, is_folder=is_folder, is_dependency=is_dependency)
        finally:
            os.close(fd)
        is_bare = b"HEAD" in found.marks and (b"commondir" in found.marks or {b"objects", b"refs"} <= found.marks)
        if not is_bare or (not path and "git" in found.named.values()):
            found.marks.clear()
        return found

    def _entry(
        self, found: _Folder, path: bytes, name: bytes, entry: os.DirEntry[str], *, is_folder: bool, is_dependency: bool
    ) -> None:
        if name.startswith(b".") or not name.isascii() or name.lower() in _VISIBLE:
            plain = plain_name(entry.name)
            if plain == ".git" or plain in RUN_OUTSIDE or plain in READ_OUTSIDE:
                found.named[path] = "git" if plain == ".git" else "run" if plain in RUN_OUTSIDE else "read"
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
            if is_folder:
                found.inner[path] = entry.inode()
            elif not leads_to_folder:
                self._remember(path, is_denied=is_denied)
        elif is_folder:
            found.inner[path] = None

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


def _holds_fresh(folder: bytes, since_ns: int) -> bool:
    """Tell whether something in a folder changed since; where there is too much to see, say yes."""
    left = _MAX_INNER
    for here, folders, names in os.walk(folder):
        inner = [*folders, *names]
        left -= len(inner)
        if left <= 0 or any(_is_fresh(here + b"/" + name, since_ns) for name in inner):
            return True
    return False


def _is_fresh(path: bytes, since_ns: int) -> bool:
    try:
        return os.lstat(path).st_ctime_ns >= since_ns
    except OSError:
        return False


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


class Guard:
    """Serves one workspace, and the folders that were added to it (`added`)."""

    def __init__(self, workspace: str, added: Sequence[str], *, has_mounts: bool) -> None:
        folders = {"": workspace} | {each: each for each in added}
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._roots = {name: os.open(folder, flags) for name, folder in folders.items()}
        self._layouts = {name: Layout(folder, is_added=name != "", has_mounts=has_mounts) for name, folder in folders.items()}

    def answer(self, message: Message) -> Message:
        """Do what a message asks for.

        Raises:
            Refused: the request is unknown, or it failed.
        """
        layout = self._layouts.get(name := str(message.get("folder", "")))
        match message["action"]:
            case "layout" if layout is not None:
                return self._look(name, layout, message)
            case "survey" if layout is not None:
                return layout.survey(int(message["since_ns"]))
            case "set_aside":
                return self._set_aside(message)
            case "take_away":
                return self._take_away(str(message["name"]))
        raise Refused("unknown guard request")

    def _look(self, name: str, layout: Layout, message: Message) -> Message:
        """Look at a folder.  In an added one `.lmagent` is made, for the quarantine, and masked as a whole."""
        if name:
            with suppress(OSError):
                os.mkdir(".lmagent", 0o755, dir_fd=self._roots[name])
        expressions = (str(message[each]) for each in ("denied", "secret", "shown"))
        found = layout.look(*expressions, is_first=bool(message["is_first"]))
        if name and found["lmagent"] == "folder":
            inode = os.stat(".lmagent", dir_fd=self._roots[name], follow_symlinks=False).st_ino
            found["masked"] = [[b".lmagent".hex(), True, False, inode], *found["masked"]]
        return found

    def _set_aside(self, message: Message) -> Message:
        """Move paths to the quarantine of their folder, as many as possible."""
        moved: list[list[str]] = []
        problem = ""
        for name, path in message["paths"]:
            try:
                if target := quarantine.set_aside(self._roots[name], bytes.fromhex(path)):
                    moved.append([name, path, target])
            except Refused as refusal:
                problem = problem or f"{bytes.fromhex(path).decode('utf-8', 'replace')}: {refusal}"
        return {"moved": moved, "problem": problem}

    def _take_away(self, name: str) -> Message:
        """Remove a probe file at the top of the workspace."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._roots[""])
            return {"is_so": True}
        return {"is_so": False}
