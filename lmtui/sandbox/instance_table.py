"""The running instances of one workspace's sandbox, and the folder that its overlays share as `/tmp`."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.permissions.rules import MaskExpressions
from lmtui.sandbox.guest.effects import discard
from lmtui.sandbox.host_paths import make_for_owner, remove_locked
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.project_tools import ProjectTools
from lmtui.sandbox.spare_overlay import SpareOverlay, new_locked_folder
from lmtui.sandbox.supervisor_client import Client, InstanceKind

IDLE_S = {InstanceKind.GIT: 60.0, InstanceKind.CHECKPOINT: 600.0, InstanceKind.READ: 600.0, InstanceKind.VIEW: 600.0}
_REVEALING_IDLE_S = 10.0

InstanceKey = tuple[InstanceKind, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Instance:
    """A running supervisor, its mounts, the masks requested at its start, and the tools that it shows."""

    client: Client
    layout: SandboxLayout
    masks: MaskExpressions
    tools: ProjectTools


class InstanceTable:
    """The running supervisors by kind and by what is revealed in them; each is ended when it is retired or long idle."""

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
        self._tasks: set[asyncio.Task[None]] = set()

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
        task = asyncio.create_task(self._end_retired(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        delay_s = _REVEALING_IDLE_S if key[1] else IDLE_S[key[0]]
        self._closing[key] = asyncio.get_running_loop().call_later(delay_s, self._close_instance, key)

    def _close_instance(self, key: InstanceKey) -> None:
        instance = self.running.get(key)
        if instance is None or self._in_use[instance.client]:
            self.postpone_closing(key)
            return
        del self.running[key], self._closing[key]
        task = asyncio.create_task(instance.client.close_when_idle())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End every instance."""
        for closing in self._closing.values():
            closing.cancel()
        for client in (*(each.client for each in self.running.values()), *self.retired):
            await client.close()
        self.running.clear()
        if self._scratch is not None:
            await asyncio.to_thread(remove_locked, self._scratch.parent, discard)

    async def wait_ended(self) -> None:
        """Wait until those that were retired have ended."""
        for task in list(self._tasks):
            await task
