"""The files of the workspace for front ends: listed and read through the sandbox, watched on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.errors import SandboxError
from lmtui.core.workspace import DirEntry, FileChange, FileContent
from lmtui.core.workspace_files import MAX_PATHS, MAX_SHOWN_BYTES, FolderListener, GitState
from lmtui.runtime.folder_watch import FolderWatch
from lmtui.runtime.git_changes import git_changes
from lmtui.runtime.trust import OWN_SETTINGS, read_own_settings
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox


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
        """Return every file that ignore rules do not leave out."""
        found, is_cut = await (await self._sandbox()).listing.paths(MAX_PATHS)
        self.paths_note = f"only the first {MAX_PATHS:,} files are searched" if is_cut else ""
        return found

    async def git_status(self) -> Mapping[str, GitState]:
        """Return what git tells of files that differ or are ignored."""
        return await (await self._sandbox()).listing.git_status()

    async def git_changes(self) -> Sequence[FileChange]:
        """Return what differs from the last commit, untracked files too."""
        return await git_changes(await self._sandbox())

    async def list(self, path: str) -> Sequence[DirEntry]:
        """List one folder, folders first."""
        return await (await self._sandbox()).listing.folder(path)

    async def read(self, path: str, max_bytes: int = MAX_SHOWN_BYTES) -> FileContent:
        """Return a file's bytes from the start."""
        if path == OWN_SETTINGS:  # no tool may read it; who is asked to trust it may
            data = await asyncio.to_thread(read_own_settings, self._workspace())
            return FileContent(data, len(data), 0o600, "")
        return await (await self._sandbox()).read_file(path, max_bytes)

    async def real_path(self, path: str) -> Path:
        """Return where a file really is on this machine."""
        real = (await (await self._sandbox()).real_paths([path]))[0]
        return await asyncio.to_thread(_below, self._workspace(), real)

    def changed(self, listener: FolderListener) -> Callable[[], None]:
        """Call `listener` when watched folders changed; the result ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, folders: Iterable[str]) -> None:
        """Watch just these folders from now on, and git's state."""
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


def _below(workspace: Path, path: str) -> Path:
    """Return the real path of a file below a workspace, links followed as this machine follows them.

    Raises:
        SandboxError: it is not there, no file, or somewhere else.
    """
    try:
        root = workspace.resolve(strict=True)
        real = (root / path).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise SandboxError(f"{clean_line(path)} does not exist") from error
    if not real.is_relative_to(root) or not real.is_file():
        raise SandboxError(f"{clean_line(path)} is not a file of the workspace")
    return real
