"""The files of the workspace for front ends: listed and read through the sandbox, watched on this machine."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lmtui.app.folder_rules import unmatched
from lmtui.app.settings_trust import OWN_SETTINGS, read_own_settings
from lmtui.core.errors import SandboxError
from lmtui.core.permissions.rules import Rule
from lmtui.core.ports import Sandbox
from lmtui.core.workspace import (
    MAX_PATHS,
    MAX_SHOWN_BYTES,
    DirEntry,
    FileChange,
    FileChangeKind,
    FileContent,
    FolderListener,
    FoldersChanged,
    GitState,
)
from lmtui.plain_files import open_plain_folder
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.text import decode, describe_change

DEBOUNCE_S = 0.2
_CLOSE_WRITE, _MOVED, _CREATE, _DELETE, _GONE = 0x8, 0xC0, 0x100, 0x200, 0xC00
_ONLY_FOLDER, _EXCLUDE_UNLINKED = 0x0100_0000, 0x0400_0000
_MASK = _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _GONE | _ONLY_FOLDER | _EXCLUDE_UNLINKED
_WAS_MOVED, _IS_OVERFLOW, _IS_FORGOTTEN = 0x800, 0x4000, 0x8000
_HEADER = struct.Struct("iIII")
_READ_BYTES = 65_536
_GIT = ".git"
_OWN_NAMES = (b".lmtui-", b".lmagent")
_ELSEWHERE = "Changes by other programs are seen when a step ends: this system cannot tell of them at once."
_LIMIT = (
    "Changes by other programs are seen when a step ends: the limit of watched folders is reached "
    "(sysctl fs.inotify.max_user_watches, max_user_instances)."
)


class FolderWatch:
    """Watches folders of one workspace and calls a listener on the event loop, at most five times a second."""

    def __init__(self, root: Path, listener: Callable[[FoldersChanged], object]) -> None:
        self.root = root
        self._listener = listener
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        self._is_off = False
        self._by_folder: dict[str, int] = {}
        self._by_number: dict[int, str] = {}
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def folders(self) -> frozenset[str]:
        """Return what is watched, git's own folder not counted."""
        return frozenset(self._by_folder) - {_GIT}

    def watch(self, folders: frozenset[str]) -> None:
        """Watch just these folders, and git's own."""
        if self._is_off or not self._open():
            return
        for folder in set(self._by_folder) - folders - {_GIT}:
            number = self._by_folder.pop(folder)
            self._forget(number)
        for folder in (folders | {_GIT}) - set(self._by_folder):
            if not self._add(folder):
                return

    def close(self) -> None:
        """Watch nothing any more; idempotent."""
        self._is_off = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            with suppress(RuntimeError):  # the loop is closed already
                asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._by_folder.clear()
        self._by_number.clear()

    def _open(self) -> bool:
        if self._fd >= 0:
            return True
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if self._libc is not None else -1
        if self._fd < 0:
            self._give_up(_ELSEWHERE if self._libc is None else _LIMIT)
            return False
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return True

    def _add(self, folder: str) -> bool:
        """Watch a folder if it is one, reached without a link; False where no more can be watched."""
        try:
            opened = open_plain_folder(self.root, folder)
        except OSError:
            return True
        assert self._libc is not None
        path = f"/proc/self/fd/{opened}".encode()
        number = self._libc.inotify_add_watch(self._fd, ctypes.c_char_p(path), ctypes.c_uint32(_MASK))
        os.close(opened)
        if number >= 0:
            self._by_folder[folder], self._by_number[number] = number, folder
        elif ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
            self._give_up(_LIMIT)
            return False
        return True

    def _forget(self, number: int) -> None:
        self._by_number.pop(number, None)
        assert self._libc is not None
        self._libc.inotify_rm_watch(self._fd, number)

    def _give_up(self, problem: str) -> None:
        self.close()
        self._listener(FoldersChanged(problem=problem))

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except OSError:
            return
        for number, mask, name in _events(data):
            if mask & _IS_OVERFLOW:
                self._changed |= set(self._by_folder)
            folder = self._by_number.get(number)
            if folder is None or name.startswith(_OWN_NAMES) or (folder == _GIT and name.endswith(b".lock")):
                continue
            self._changed.add(folder)
            if mask & _WAS_MOVED:  # the watch would follow it to its new name, and the old name may come back
                self._forget(number)
            elif mask & _IS_FORGOTTEN:
                del self._by_number[number]
            if mask & (_WAS_MOVED | _IS_FORGOTTEN):
                self._by_folder.pop(folder, None)
        if self._changed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DEBOUNCE_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        changed, self._changed = frozenset(self._changed), set()
        self._listener(FoldersChanged(changed - {_GIT}, _GIT in changed))


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield watch number, mask and name of each event in what the kernel wrote (inotify(7))."""
    at = 0
    while at + _HEADER.size <= len(data):
        number, mask, _cookie, size = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield number, mask, data[at : at + size].rstrip(b"\0")
        at += size


MOST_FILES = 500
_MOST_TOGETHER = 40
_MOST_BYTES = 262_144
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_NO_COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # the empty tree, which git knows everywhere (gitglossary)
_KINDS = {GitState.ADDED: FileChangeKind.ADDED, GitState.DELETED: FileChangeKind.DELETED}


async def git_changes(sandbox: WorkspaceSandbox) -> tuple[FileChange, ...]:
    """Return the files that differ from the last commit, by path, at most `MOST_FILES`; nothing without a repository.

    Raises:
        SandboxError: git cannot tell.
    """
    states = await sandbox.listing.git_status()
    tracked = sorted(path for path, state in states.items() if state not in (GitState.IGNORED, GitState.UNTRACKED))
    folders = [path for path, state in states.items() if state is GitState.UNTRACKED]
    untracked: list[str] = []
    if folders:
        paths, _ = await sandbox.listing.paths(200_000)
        new = set(folders)
        prefixes = tuple(f"{path}/" for path in folders)
        untracked = [path for path in paths if path in new or path.startswith(prefixes)]
    tracked = tracked[:MOST_FILES]
    base = await _base(sandbox) if tracked else ""
    found: list[FileChange] = []
    for at in range(0, len(tracked), _MOST_TOGETHER):
        together = tracked[at : at + _MOST_TOGETHER]
        diffs = await _diffs(sandbox, base, together)
        found += [_change(path, states[path], diff) for path, diff in zip(together, diffs, strict=True)]
    for path in untracked[: MOST_FILES - len(found)]:
        found.append(await _untracked(sandbox, path))
    return tuple(sorted(found, key=lambda change: change.path))


async def _base(sandbox: Sandbox) -> str:
    result = await sandbox.run_git(("rev-parse", "--verify", "--quiet", "HEAD"))
    return "HEAD" if result.exit_code == 0 else _NO_COMMIT


async def _diffs(sandbox: Sandbox, base: str, paths: Sequence[str]) -> list[str]:
    """Return the differences of some files, asked for at once; one by one where the answer does not tell them apart."""
    result = await sandbox.run_git((*_DIFF, base, "--", *paths))
    if result.exit_code != 0:
        raise SandboxError(result.output.strip() or "git could not compare the files with the last commit")
    parts = [f"diff --git {part}" for part in f"\n{result.output}".split("\ndiff --git ")[1:]]
    if len(parts) == len(paths) and not result.saved_path:
        return parts
    if len(paths) == 1:
        return ["\n".join(parts)]
    return [(await _diffs(sandbox, base, [path]))[0] for path in paths]


def _change(path: str, state: GitState, diff: str) -> FileChange:
    body = diff[at:] if (at := diff.find("\n@@ ")) >= 0 else ""
    lines = body.split("\n")
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    is_new, is_gone = "\nnew file mode " in diff[:at], "\ndeleted file mode " in diff[:at]
    kind = FileChangeKind.ADDED if is_new else FileChangeKind.DELETED if is_gone else FileChangeKind.MODIFIED
    return FileChange(path, _KINDS.get(state, kind), added, removed, body.lstrip("\n"))


async def _untracked(sandbox: Sandbox, path: str) -> FileChange:
    try:
        content = await sandbox.unmasked().read_file(path, _MOST_BYTES)
    except SandboxError:
        return FileChange(path, FileChangeKind.ADDED)
    file = decode(content.data) if len(content.data) == content.size_bytes else None
    if file is None:
        return FileChange(path, FileChangeKind.ADDED)
    return await asyncio.to_thread(describe_change, path, None, file.text)


class WorkspaceFiles:
    """Implements `core.workspace_files.Files`.

    Args:
        workspace: tells the folder of the moment (the demo changes it).
        sandbox: gives its sandbox, started when it is first used.
    """

    def __init__(self, workspace: Callable[[], Path], sandbox: Callable[[], Awaitable[WorkspaceSandbox]]) -> None:
        self._workspace = workspace
        self._sandbox = sandbox
        self._listeners: list[FolderListener] = []
        self._watch: FolderWatch | None = None
        self.paths_note = ""

    async def paths(self) -> Sequence[str]:
        found, is_cut = await (await self._sandbox()).listing.paths(MAX_PATHS)
        self.paths_note = f"only the first {MAX_PATHS:,} files are searched" if is_cut else ""
        return found

    async def unmatched(self, rules: Sequence[Rule]) -> Sequence[Rule]:
        return await asyncio.to_thread(unmatched, rules, self._workspace())

    async def git_status(self) -> Mapping[str, GitState]:
        return await (await self._sandbox()).listing.git_status()

    async def git_changes(self) -> Sequence[FileChange]:
        return await git_changes(await self._sandbox())

    async def list(self, path: str) -> Sequence[DirEntry]:
        return await (await self._sandbox()).listing.folder(path)

    async def read(self, path: str, max_bytes: int = MAX_SHOWN_BYTES) -> FileContent:
        if path == OWN_SETTINGS:  # no tool may read it; who is asked to trust it may
            data = await asyncio.to_thread(read_own_settings, self._workspace())
            return FileContent(data, len(data), 0o600, "")
        return await (await self._sandbox()).unmasked().read_file(path, max_bytes)

    async def real_path(self, path: str) -> Path:
        view = (await self._sandbox()).unmasked()
        real = (await view.real_paths([path]))[0]
        await view.read_file(real, 1)
        return self._workspace().resolve() / real

    def changed(self, listener: FolderListener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, folders: Iterable[str]) -> None:
        root = self._workspace()
        if self._watch is not None and self._watch.root != root:
            self.close()
        if self._watch is None:
            self._watch = FolderWatch(root, lambda change: [listener(change) for listener in tuple(self._listeners)])
        self._watch.watch(frozenset(folders))

    def close(self) -> None:
        """Watch nothing any more; idempotent."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
