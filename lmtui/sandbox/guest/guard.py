"""The guard: it looks after a workspace from inside a sandbox that runs no other program.

The host asks it for everything that concerns workspace files, so the host never opens a workspace path.  The parts of
`.git` and `.lmagent` that a command must not change are kept while it runs and restored afterwards, by descriptors and without
following links, with every other process of the workspace stopped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from . import quarantine
from .beneath import Refused
from .layout import Layout
from .protocol import Message

_MAX_BYTES = 128 << 20
_MAX_FILES = 50_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LMTUI_FOLDER = ".lmagent"
_EXECUTED = frozenset(("config", "config.worktree", "commondir", "attributes", "alternates", "gitdir"))
# Work that is under way names commands to go on with (`exec` lines, drivers): the tools begin none, so it is not theirs.
_EXECUTED_FOLDERS = frozenset(("hooks", "rebase-merge", "rebase-apply", "sequencer"))

Chooser = Callable[[str], bool]


class _SavedFile:
    """A file or link: how it was recognised, its mode, and its bytes (of a link, its target)."""

    def __init__(self, signature: tuple[int, ...], mode: int, data: bytes) -> None:
        self.signature = signature
        self.mode = mode
        self.data = data


def is_executed(path: str) -> bool:
    """Choose the files of a git folder that make git run something, now or later, or look elsewhere."""
    folders, name = path.split("/")[:-1], path.rsplit("/", 1)[-1]
    return name in _EXECUTED or name.startswith("BISECT_") or not _EXECUTED_FOLDERS.isdisjoint(folders)


def is_not_an_object(path: str) -> bool:
    """Choose everything in a git folder but its objects, which are many and cannot run."""
    return not path.startswith(("objects/", "lfs/objects/")) or path.startswith("objects/info/")


def is_a_setting(path: str) -> bool:
    """Choose everything in lmtui's own folder but what lmtui itself writes meanwhile."""
    return not path.startswith(("sessions/", "quarantine/", "jobs/"))


class Vault:
    """The chosen files of the folder `name` at the top of the workspace, which `root` is a descriptor of."""

    def __init__(self, root: int, name: str, choose: Chooser) -> None:
        self._root = root
        self._name = name
        self._choose = choose
        self._files: dict[str, _SavedFile] = {}
        self._fd = -1

    def keep(self) -> None:
        """Record the current state.

        Raises:
            Refused: there is too much to keep, or it cannot be read.
        """
        self.close()
        try:
            with suppress(FileNotFoundError, NotADirectoryError):
                self._fd = os.open(self._name, _FOLDER, dir_fd=self._root)
            self._files = self._read(self._files) if self._fd >= 0 else {}
        except OSError as error:
            raise Refused(f"{self._name} cannot be kept safe: {error.strerror}") from error

    def put_back(self) -> tuple[str, ...]:
        """Restore the recorded state, forget it, and return the paths that had changed, relative to the workspace.

        Raises:
            Refused: something could not be restored.
        """
        if self._fd < 0:
            return ()
        changed: list[str] = []
        try:
            self._bring_home(changed)
            now = self._read(self._files)
            for path in now.keys() - self._files.keys():
                quarantine.set_aside(self._root, os.fsencode(f"{self._name}/{path}"))
                changed.append(path)
            for path, kept in self._files.items():
                if path not in now or (now[path].mode, now[path].data) != (kept.mode, kept.data):
                    self._write(path, kept)
                    changed.append(path)
        except OSError as error:
            raise Refused(f"a command changed {self._name}, and it could not be put back: {error.strerror}") from error
        finally:
            self.close()
        return tuple(sorted(f"{self._name}/{path}".rstrip("/") for path in changed))

    def close(self) -> None:
        """Let go of the folder."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _bring_home(self, changed: list[str]) -> None:
        """Move the folder itself back to its place, wherever it was moved to; make it again where it was deleted."""
        mine = os.fstat(self._fd)
        with suppress(FileNotFoundError):
            there = os.stat(self._name, dir_fd=self._root, follow_symlinks=False)
            if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
                if stat.S_IMODE(mine.st_mode) & 0o700 != 0o700:
                    os.fchmod(self._fd, stat.S_IMODE(mine.st_mode) | 0o700)
                return
            self._move_away()
        changed.append("")
        if mine.st_nlink > 0:
            os.rename(os.readlink(f"/proc/self/fd/{self._fd}"), self._name, dst_dir_fd=self._root)
            return
        os.mkdir(self._name, 0o755, dir_fd=self._root)
        os.close(self._fd)
        self._fd = os.open(self._name, _FOLDER, dir_fd=self._root)

    def _move_away(self) -> None:
        """Quarantine something foreign; if it blocks the quarantine folder, move it next to that."""
        if self._name == LMTUI_FOLDER:
            outside = f"{self._name}-moved-{os.urandom(4).hex()}"
            os.rename(self._name, outside, src_dir_fd=self._root, dst_dir_fd=self._root)
        else:
            quarantine.set_aside(self._root, os.fsencode(self._name))

    def _read(self, before: dict[str, _SavedFile]) -> dict[str, _SavedFile]:
        files: dict[str, _SavedFile] = {}
        total = 0
        for folder, _, names, fd in os.fwalk(".", dir_fd=self._fd):
            for name in [*names, *_links(fd)]:
                path = os.path.normpath(f"{folder}/{name}")
                if path in files or not self._choose(path):
                    continue
                kept = _take(fd, name, before.get(path))
                if kept is None:
                    continue
                files[path] = kept
                total += len(kept.data)
                if total > _MAX_BYTES or len(files) > _MAX_FILES:
                    raise Refused(f"{self._name} is too large to be kept safe here", "Use Docker or bubblewrap.")
        return files

    def _write(self, path: str, kept: _SavedFile) -> None:
        parent, _, name = path.rpartition("/")
        folder = os.dup(self._fd)
        try:
            for part in parent.split("/") if parent else ():
                folder = _enter(folder, part)
            with suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    quarantine.set_aside(self._root, os.fsencode(f"{self._name}/{path}"))
            temporary = f".lmtui-{os.urandom(6).hex()}.tmp"
            if stat.S_ISLNK(kept.mode):
                os.symlink(os.fsdecode(kept.data), temporary, dir_fd=folder)
            else:
                fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
                with os.fdopen(fd, "wb") as file:
                    file.write(kept.data)
                    os.fchmod(fd, stat.S_IMODE(kept.mode))
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)


def _links(folder: int) -> list[str]:
    """Return links to folders, which `os.fwalk` counts among the folders."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_symlink()]


def _take(folder: int, name: str, before: _SavedFile | None) -> _SavedFile | None:
    """Read a file or link, or nothing where it is neither; one that did not change is not read again."""
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    signature = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    if stat.S_ISLNK(info.st_mode):
        return _SavedFile(signature, info.st_mode, os.fsencode(os.readlink(name, dir_fd=folder)))
    if not stat.S_ISREG(info.st_mode):
        return _SavedFile(signature, info.st_mode, b"")
    if before is not None and before.signature == signature:
        return before
    if info.st_size > _MAX_BYTES:
        raise Refused(f"{name} is too large to be kept safe here", "Use Docker or bubblewrap.")
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        return _SavedFile(signature, info.st_mode, file.read(_MAX_BYTES + 1))


def _enter(folder: int, part: str) -> int:
    """Open (making it where it is missing) a folder below another, which is closed."""
    try:
        try:
            return os.open(part, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            os.mkdir(part, 0o755, dir_fd=folder)
        except OSError:  # a file or a link stands there
            os.rename(part, f"{part}-moved-{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
            os.mkdir(part, 0o755, dir_fd=folder)
        return os.open(part, _FOLDER, dir_fd=folder)
    finally:
        os.close(folder)


class Guard:
    """Serves one workspace.

    Args:
        folder: the workspace, or a folder that was added to it as writable.
        is_added: it is such a folder.
    """

    def __init__(self, folder: str, *, is_added: bool = False) -> None:
        self._is_added = is_added
        self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._layout = Layout(folder, is_added=is_added)
        self._vaults = {
            "git": (Vault(self._root, ".git", is_executed),),
            "all": (Vault(self._root, ".lmagent", is_a_setting), Vault(self._root, ".git", is_not_an_object)),
        }
        self._operations: dict[str, Callable[[Message], Message]] = {
            "layout": self._look,
            "keep": self._keep,
            "put_back": self._put_back,
            "set_aside": self._set_aside,
            "take_away": self._take_away,
        }

    def answer(self, message: Message) -> Message:
        """Do what a message asks for.

        Raises:
            Refused: the request is unknown, or it failed.
        """
        operation = self._operations.get(str(message["action"]))
        if operation is None:
            raise Refused("unknown guard request")
        return operation(message)

    def _look(self, message: Message) -> Message:
        """Look at the folder.  In an added one `.lmagent` is made, for the quarantine, and masked as a whole."""
        if self._is_added:
            with suppress(OSError):
                os.mkdir(".lmagent", 0o755, dir_fd=self._root)
        found = self._layout.look(*(str(message[name]) for name in ("denied", "secret", "shown")))
        if self._is_added and found["lmagent"] == "folder":
            inode = os.stat(".lmagent", dir_fd=self._root, follow_symlinks=False).st_ino
            found["masked"] = [[b".lmagent".hex(), True, False, inode], *found["masked"]]
        return found

    def _keep(self, message: Message) -> Message:
        for vault in self._vaults[str(message["what"])]:
            vault.keep()
        return {}

    def _put_back(self, message: Message) -> Message:
        """Restore what was kept, as much as possible."""
        changed: list[str] = []
        problem = ""
        for vault in self._vaults[str(message["what"])]:
            try:
                changed += vault.put_back()
            except Refused as refusal:
                problem = problem or str(refusal)
        return {"changed": [os.fsencode(path).hex() for path in changed], "problem": problem}

    def _set_aside(self, message: Message) -> Message:
        """Move paths to the quarantine, as many as possible."""
        moved: list[list[str]] = []
        problem = ""
        for path in message["paths"]:
            try:
                if target := quarantine.set_aside(self._root, bytes.fromhex(path)):
                    moved.append([path, target])
            except Refused as refusal:
                problem = problem or f"{bytes.fromhex(path).decode('utf-8', 'replace')}: {refusal}"
        return {"moved": moved, "problem": problem}

    def _take_away(self, message: Message) -> Message:
        """Remove a probe file at the top of the workspace."""
        with suppress(FileNotFoundError):
            os.unlink(str(message["name"]), dir_fd=self._root)
            return {"was_there": True}
        return {"was_there": False}
