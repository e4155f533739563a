"""An overlay that is made ahead, with its supervisors, so that a command need not wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.paths import overlays_dir
from lmtui.sandbox.guest.effects import discard
from lmtui.sandbox.host_paths import lock_folder, make_for_owner, remove_locked
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.project_tools import ProjectTools
from lmtui.sandbox.supervisor_client import Client, InstanceKind, to_the_end

_IDLE_S = 60.0
_KINDS = (InstanceKind.MAIN, InstanceKind.CHECKPOINT)


@dataclass(frozen=True, slots=True)
class OpenedOverlay:
    """A supervisor with an overlay over the workspace, what it was opened with, and the tools that it shows."""

    client: Client
    layout: SandboxLayout
    tools: ProjectTools


Open = Callable[[InstanceKind, Path], Awaitable[OpenedOverlay]]


async def open_whole(work: Coroutine[Any, Any, OpenedOverlay]) -> OpenedOverlay:  # Any: what a coroutine yields
    """Open a supervisor to the end; a cancel meanwhile is raised once that is closed again, as its process is there already."""
    opening = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await to_the_end(_closed(opening))
        raise


async def _closed(opening: asyncio.Future[OpenedOverlay]) -> None:
    with contextlib.suppress(SandboxError):
        await (await opening).client.close()


@dataclass(slots=True)
class _Made:
    folder: Path
    opened: dict[InstanceKind, OpenedOverlay] = field(default_factory=dict)


class SpareOverlay:
    """At most one overlay that nobody has looked into yet: the kernel promises nothing of a lower folder that changes later.

    It goes when it was not used for a minute.

    Args:
        workspace: what it is over.
        open_client: opens a supervisor for it.
    """

    def __init__(self, workspace: Path, open_client: Open) -> None:
        self._workspace = workspace
        self._open_client = open_client
        self._made: _Made | None = None
        self._taken: dict[Path, _Made] = {}
        self._making: asyncio.Task[None] | None = None
        self._closing: asyncio.TimerHandle | None = None
        self._is_closed = False

    def take(self) -> Path:
        """Return the folder of an overlay: the one that was made ahead, or a new one.

        Raises:
            SandboxUnavailable: it cannot be made.
        """
        if self._made is None:
            return new_overlay_folder(self._workspace)
        made, self._made = self._made, None
        self._taken[made.folder] = made
        return made.folder

    def opened(self, kind: InstanceKind, folder: Path) -> OpenedOverlay | None:
        """Return the supervisor of an overlay that was made ahead, once; the caller closes it."""
        made = self._taken.get(folder)
        return made.opened.pop(kind, None) if made is not None else None

    async def give_back(self, folder: Path) -> None:
        """End what was opened for an overlay and not used, and make the next one."""
        made = self._taken.pop(folder, None)
        for each in made.opened.values() if made is not None else ():
            await each.client.close()
        if self._made is None and self._making is None and not self._is_closed:
            self._making = asyncio.create_task(self._make())

    async def close(self) -> None:
        """Drop it; idempotent."""
        self._is_closed = True
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        for made in (self._made, *self._taken.values()):
            if made is not None:
                await _drop(made)
        self._made = None
        self._taken.clear()

    async def _make(self) -> None:
        made: _Made | None = None
        try:
            made = _Made(new_overlay_folder(self._workspace))
            for kind in _KINDS:
                made.opened[kind] = await self._open_client(kind, made.folder)
            self._made, made = made, None
            loop = asyncio.get_running_loop()
            if self._closing is not None:
                self._closing.cancel()
            self._closing = loop.call_later(_IDLE_S, self._expire)
        except SandboxError:
            pass  # the next command tries itself, and is told why it cannot
        finally:
            self._making = None
            if made is not None:
                await asyncio.shield(_drop(made))

    def _expire(self) -> None:
        if self._made is not None and not self._is_closed:
            made, self._made = self._made, None
            self._making = asyncio.create_task(self._forget(made))

    async def _forget(self, made: _Made) -> None:
        try:
            await _drop(made)
        finally:
            self._making = None


async def _drop(made: _Made) -> None:
    for each in made.opened.values():
        await each.client.close()
    await asyncio.to_thread(remove_locked, made.folder, discard)


def new_locked_folder(workspace: Path) -> Path:
    """Make and return a folder for what commands write in overlays, which is this process's.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    folder = make_for_owner(overlays_dir(workspace), workspace) / secrets.token_hex(8)
    try:
        lock_folder(folder)
    except OSError as error:
        raise SandboxUnavailable(f"{folder} cannot be made: {error.strerror}") from error
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
