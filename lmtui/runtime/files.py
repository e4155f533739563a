"""The files of the workspace for front ends: listed and read through the sandbox, watched on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from lmtui.core.rules import Rule
from lmtui.core.workspace import DirEntry, FileChange, FileContent
from lmtui.core.workspace_files import MAX_PATHS, MAX_SHOWN_BYTES, FolderListener, GitState
from lmtui.runtime.folder_watch import FolderWatch
from lmtui.runtime.git_changes import git_changes
from lmtui.runtime.rules import unmatched
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

    async def unmatched(self, rules: Sequence[Rule]) -> Sequence[Rule]:
        """Return the rules about paths that match no file or folder."""
        return await asyncio.to_thread(unmatched, rules, self._workspace())

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
        return await (await self._sandbox()).unmasked().read_file(path, max_bytes)

    async def real_path(self, path: str) -> Path:
        """Return where a file really is on this machine.

        Raises:
            SandboxError: it is missing, not a regular file, or not in the workspace.
        """
        view = (await self._sandbox()).unmasked()
        real = (await view.real_paths([path]))[0]
        await view.read_file(real, 1)
        return self._workspace().resolve() / real

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
