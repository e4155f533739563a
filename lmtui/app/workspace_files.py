"""The files of the workspace for front ends: listed and read through the sandbox, watched on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from watchfiles import Change
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from lmtui.app.settings_trust import OWN_SETTINGS, read_own_settings
from lmtui.core.errors import SandboxError
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

_GATHER_MS = 200
_OPTIONS = (False, False, 0, False, False)  # no debug output, no polling, and no folder below the named ones
_GIT = ".git"
_OWN_NAMES = (".lmtui-", ".lmagent")
_LIMIT = (
    "The limit of watched folders is reached: changes by other programs appear when a step ends "
    "(on Linux raise sysctl fs.inotify.max_user_watches, max_user_instances)."
)


class FolderWatch:
    """Watches folders of one workspace and calls a listener on the event loop, at most five times a second."""

    def __init__(self, root: Path, listener: Callable[[FoldersChanged], object]) -> None:
        self.root = root
        self._listener = listener
        self._wanted: frozenset[str] = frozenset()
        self._places: dict[str, str] = {}  # the folders by the paths that are watched
        self._stop = threading.Event()
        self._is_off = False

    @property
    def folders(self) -> frozenset[str]:
        """Return what is watched, git's own folder not counted."""
        return frozenset(self._places.values()) - {_GIT}

    def watch(self, folders: frozenset[str]) -> None:
        """Watch just these folders, and git's own; a link is not followed."""
        if self._is_off or folders | {_GIT} == self._wanted:
            return
        self._stop.set()
        self._wanted, self._stop = folders | {_GIT}, threading.Event()
        opened: dict[int, str] = {}
        for folder in self._wanted:
            with suppress(OSError):
                opened[open_plain_folder(self.root, folder)] = folder
        is_linux = sys.platform == "linux"  # there the open folder itself is watched, whatever its path becomes
        self._places = {f"/proc/self/fd/{at}" if is_linux else str(self.root / name): name for at, name in opened.items()}
        try:
            watcher = RustNotify(list(self._places), *_OPTIONS)
        except (OSError, WatchfilesRustInternalError):
            self.close()
            self._listener(FoldersChanged(problem=_LIMIT))
            return
        finally:
            for at in opened:
                os.close(at)
        work = (watcher, self._stop, asyncio.get_running_loop())
        threading.Thread(target=self._read, args=work, name="folders", daemon=True).start()

    def close(self) -> None:
        """Watch nothing any more; idempotent."""
        self._is_off = True
        self._stop.set()
        self._places = {}

    def _read(self, watcher: RustNotify, stop: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        while isinstance(found := watcher.watch(_GATHER_MS, _GATHER_MS, 0, stop), set):
            with suppress(RuntimeError):  # the loop is closed already
                loop.call_soon_threadsafe(self._tell, found, stop)

    def _tell(self, found: set[tuple[int, str]], stop: threading.Event) -> None:
        changed: set[str] = set()
        for kind, path in found if not stop.is_set() else ():
            place = path if path in self._places else path.rpartition("/")[0]
            folder, name = self._places.get(place), path[len(place) + 1 :]
            if folder is None or name.startswith(_OWN_NAMES) or (folder == _GIT and name.endswith(".lock")):
                continue
            changed.add(folder)
            self._wanted -= {f"{folder}/{name}".strip("/")}  # it may be another now, and is watched again when it is wanted
            if kind == Change.deleted and not name:
                del self._places[place]
        if changed:
            self._listener(FoldersChanged(frozenset(changed) - {_GIT}, _GIT in changed))


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
    has_commit = bool(tracked) and (await sandbox.run_git(("rev-parse", "--verify", "--quiet", "HEAD"))).exit_code == 0
    found: list[FileChange] = []
    for at in range(0, len(tracked), _MOST_TOGETHER):
        together = tracked[at : at + _MOST_TOGETHER]
        diffs = await _diffs(sandbox, "HEAD" if has_commit else _NO_COMMIT, together)
        found += [_change(path, states[path], diff) for path, diff in zip(together, diffs, strict=True)]
    for path in untracked[: MOST_FILES - len(found)]:
        found.append(await _untracked(sandbox, path))
    return tuple(sorted(found, key=lambda change: change.path))


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
    added, removed = (sum(line.startswith(sign) for line in body.split("\n")) for sign in "+-")
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
