"""An overlay that is made ahead, so that a command need not wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import SandboxError
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.paths import kept_dir
from lmtui.sandbox.host_paths import creating, lock_folder, make_for_owner, remove_locked
from lmtui.sandbox.mount_layout import NO_RULES, SandboxLayout
from lmtui.sandbox.project_tools import ProjectTools
from lmtui.sandbox.supervisor_client import Client, InstanceKind

_IDLE_S = 60.0
_KINDS = (InstanceKind.MAIN, InstanceKind.CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Instance:
    """A running supervisor, what it was opened with, the tools that it shows, and the masks requested at its start."""

    client: Client
    layout: SandboxLayout
    tools: ProjectTools
    masks: MaskExpressions = NO_RULES


Open = Callable[[InstanceKind, Path], Awaitable[Instance]]


class SpareOverlay:
    """At most one overlay that nobody has looked into yet: the kernel promises nothing of a lower folder that changes later.

    It goes when it was not used for a minute.

    Args:
        workspace: what it is over.
        open_client: opens a supervisor for it.
    """

    def __init__(self, workspace: Path, open_client: Open) -> None:
        self._workspace, self._open_client = workspace, open_client
        self._opened: dict[Path, dict[InstanceKind, Instance]] = {}
        self._free: Path | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_closed = False

    def take(self) -> Path:
        """Return the folder of an overlay: the one that was made ahead, or a new one.

        Raises:
            SandboxUnavailable: it cannot be made.
        """
        folder, self._free = self._free, None
        if folder is None or self._keeping is None:
            return new_overlay_folder(self._workspace)
        self._keeping.cancel()
        return folder

    def opened(self, kind: InstanceKind, folder: Path) -> Instance | None:
        """Return the supervisor of an overlay that was made ahead, once; the caller closes it."""
        return self._opened.get(folder, {}).pop(kind, None)

    async def give_back(self, folder: Path) -> None:
        """End what was opened for an overlay and not used, and make the next one."""
        await self._end(folder)
        if (self._keeping is None or self._keeping.done()) and not self._is_closed:
            self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Drop it; idempotent."""
        self._is_closed = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        for folder in list(self._opened):
            await self._drop(folder)

    async def _keep(self) -> None:
        """Make an overlay, and drop it unless somebody takes it soon."""
        with contextlib.suppress(SandboxError):  # the next command tries itself, and is told why it cannot
            folder = new_overlay_folder(self._workspace)
            self._opened[folder] = {}
            was_free = False
            try:
                for kind in _KINDS:
                    self._opened[folder][kind] = await self._open_client(kind, folder)
                self._free, was_free = folder, True
                await asyncio.sleep(_IDLE_S)
            finally:
                if self._free == folder or not was_free:  # else it was taken
                    self._free = None
                    await asyncio.shield(self._drop(folder))

    async def _end(self, folder: Path) -> None:
        for each in self._opened.pop(folder, {}).values():
            await each.client.close()

    async def _drop(self, folder: Path) -> None:
        await self._end(folder)
        await asyncio.to_thread(remove_locked, folder)


def new_locked_folder(workspace: Path) -> Path:
    """Make and return a folder for what commands write in overlays, which is this process's.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    folder = make_for_owner(kept_dir("overlays", workspace), workspace) / secrets.token_hex(8)
    with creating(folder):
        lock_folder(folder)
    return make_for_owner(folder, workspace)


def new_overlay_folder(workspace: Path) -> Path:
    """Make and return the folder of an overlay.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    folder = new_locked_folder(workspace)
    for name in ("upper", "work"):
        make_for_owner(folder / name, workspace)
    mode = workspace.stat().st_mode & 0o777
    (folder / "upper").chmod(mode)  # the merged folder has the upper one's bits
    return folder
