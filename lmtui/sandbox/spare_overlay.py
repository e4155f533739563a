"""The running instances of one workspace, and an overlay that is made ahead, so that a command need not wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        self._taken: Path | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._is_closed = False

    def take(self) -> Path:
        """Return the folder of an overlay: the one that was made ahead, or a new one.

        Raises:
            SandboxUnavailable: it cannot be made.
        """
        self._taken, self._free = self._free, None
        if self._taken is None or self._keeping is None:
            return new_overlay_folder(self._workspace)
        self._keeping.cancel()
        return self._taken

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
            try:
                for kind in _KINDS:
                    self._opened[folder][kind] = await self._open_client(kind, folder)
                self._free = folder
                await asyncio.sleep(_IDLE_S)
            finally:
                if self._taken != folder:
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


_REVEALING_IDLE_S, _GIT_IDLE_S, _LONG_IDLE_S = 10.0, 60.0, 600.0

InstanceKey = tuple[InstanceKind, frozenset[str]]


class InstanceTable:
    """The running supervisors by kind and by what is revealed in them; each is ended when it is retired or long idle.

    `ending` are the tasks that do that.
    """

    def __init__(self, spare: SpareOverlay) -> None:
        self.spare = spare
        self.running: dict[InstanceKey, Instance] = {}
        self.retired: set[Client] = set()
        self.is_closed = False
        self.overlay_problem = ""
        self.was_asked = False
        self._scratch: Path | None = None
        self._in_use: Counter[Client] = Counter()
        self._released = asyncio.Event()
        self._closing: dict[InstanceKey, asyncio.TimerHandle] = {}
        self.ending: set[asyncio.Task[None]] = set()

    def scratch_of(self, workspace: Path) -> Path:
        """Return the folder that the overlays of a workspace share as `/tmp`.

        Raises:
            SandboxUnavailable: it cannot be made.
        """
        if self._scratch is None:
            self._scratch = make_for_owner(new_locked_folder(workspace) / "tmp", workspace)
            self._scratch.chmod(0o1777)
        return self._scratch

    def retire(self, client: Client) -> None:
        """End an instance once nothing runs in it."""
        self.retired.add(client)
        self._start(self._end_retired(client))

    async def _end_retired(self, client: Client) -> None:
        while self._in_use[client] and client.is_alive:
            self._released.clear()
            await self._released.wait()
        await client.close_when_idle()
        self.retired.discard(client)

    @contextlib.contextmanager
    def using(self, client: Client) -> Iterator[None]:
        """Keep an instance from being ended meanwhile."""
        self._in_use[client] += 1
        try:
            yield
        finally:
            self._in_use[client] -= 1
            self._released.set()
            if not self._in_use[client]:
                del self._in_use[client]

    def postpone_closing(self, key: InstanceKey) -> None:
        """End an instance once it has been idle for its time from now."""
        if key in self._closing:
            self._closing[key].cancel()
        delay_s = _REVEALING_IDLE_S if key[1] else _GIT_IDLE_S if key[0].writes_git else _LONG_IDLE_S
        self._closing[key] = asyncio.get_running_loop().call_later(delay_s, self._close_instance, key)

    def _close_instance(self, key: InstanceKey) -> None:
        instance = self.running.get(key)
        if instance is None or self._in_use[instance.client]:
            self.postpone_closing(key)
            return
        del self.running[key], self._closing[key]
        self._start(instance.client.close_when_idle())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:  # Any: what a coroutine yields
        task = asyncio.create_task(work)
        self.ending.add(task)
        task.add_done_callback(self.ending.discard)

    async def close(self) -> None:
        """End every instance."""
        for closing in self._closing.values():
            closing.cancel()
        for client in (*(each.client for each in self.running.values()), *self.retired):
            await client.close()
        self.running.clear()
        if self._scratch is not None:
            await asyncio.to_thread(remove_locked, self._scratch.parent)
