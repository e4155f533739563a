"""The running supervisors of one workspace, shared by its sessions: started at first use, restarted when lost.

Nothing here knows what a supervisor is asked to do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.workspace import SandboxStatus
from lmtui.paths import workspace_dir
from lmtui.sandbox import plan_lane
from lmtui.sandbox.backend import Backend
from lmtui.sandbox.client import Client
from lmtui.sandbox.custody import Custody, Findings
from lmtui.sandbox.gates import Gates
from lmtui.sandbox.link import Lane
from lmtui.sandbox.proxy import Proxy
from lmtui.sandbox.waiting import to_the_end

_IDLE_S = {Lane.GIT: 60.0, Lane.CHECKPOINT: 600.0, Lane.PLAN: 600.0}
_RESTARTED = (
    "the sandbox ended unexpectedly and was started again: background processes and files outside the workspace are gone"
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The backend that passed its self-test, its first supervisor, and what the user is told of it."""

    backend: Backend
    client: Client
    status: SandboxStatus


class Lanes:
    """Supervisors by lane.  Each method may be called from several tasks of one event loop at once."""

    def __init__(
        self,
        workspace: Path,
        choose: Callable[[], Awaitable[Chosen]],
        gates: Gates | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self.workspace = workspace
        self.users = 0
        self._choose = choose
        self._chosen: Chosen | None = None
        self._clients: dict[Lane, Client] = {}
        self._starting = asyncio.Lock()
        self._notice = ""
        self._had_git = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing: dict[Lane, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_by_one = asyncio.Lock()
        self._git_turn = asyncio.Lock()
        self.custody = Custody(workspace)
        self._is_closed = False
        self.gates = gates or Gates()
        self._proxy = proxy

    async def status(self) -> SandboxStatus:
        """Return what runs; starts it where it does not."""
        await self.client(Lane.MAIN)
        assert self._chosen is not None
        return replace(
            self._chosen.status, facts=(*self._chosen.status.facts, self._notice) if self._notice else self._chosen.status.facts
        )

    async def plan_status(self) -> SandboxStatus:
        """Return what the read-only lane is; starts and tests it where it does not run."""
        status = await self.status()
        await self.client(Lane.PLAN)
        assert self._chosen is not None
        if not self._chosen.backend.is_isolated or not status.has_shell:
            reason = f"{status.backend} cannot keep commands from changing the folder"
            return replace(status, has_shell=False, reason=reason)
        return replace(status, text=f"{status.text}; the folder is read-only", is_read_only=True)

    async def client(self, lane: Lane) -> Client:
        """Return a living supervisor of a lane.

        Raises:
            SandboxError: it cannot be started.
        """
        async with self._starting:
            if self._is_closed:
                raise SandboxError("the sandbox is closed")
            if self._chosen is None:
                self._chosen = await self._start_first()
            client = self._clients.get(lane)
            if client is None or not client.is_alive:
                if client is not None:
                    self._notice = _RESTARTED
                    await client.close()
                client = await self._open(lane)
        if lane in _IDLE_S:
            self._postpone_closing(lane)
        return client

    @contextlib.asynccontextmanager
    async def command_client(self, memory_mb: int, findings: list[Findings]) -> AsyncIterator[Client]:
        """Yield the main lane's supervisor for a command; what it left for programs outside is in `findings` afterwards.

        A `.git` that has come since is made read-only first.  Without mounts, commands run one by one.
        """
        await self.client(Lane.MAIN)
        assert self._chosen is not None
        backend = self._chosen.backend
        if backend.has_mounts and not self._had_git and self._has_git():
            await self._idle.wait()
            async with self._starting:
                if not self._had_git:
                    await self._clients[Lane.MAIN].close_when_idle()
                    await self._open(Lane.MAIN)
        await backend.reserve_memory(memory_mb)
        async with self._turn(backend):
            client = await self.client(Lane.MAIN)
            keeps_copies = backend.is_isolated and not backend.has_mounts
            began = await self.custody.begin(client, keeps_copies=keeps_copies) if backend.is_isolated else None
            self._running += 1
            self._idle.clear()
            try:
                yield client
            finally:
                self._running -= 1
                if not self._running:
                    self._idle.set()
                if began is not None:
                    ending = self.custody.end(partial(self.client, Lane.MAIN), began, keeps_copies=keeps_copies)
                    findings.append(await to_the_end(ending))

    @contextlib.asynccontextmanager
    async def git_client(self, findings: list[Findings]) -> AsyncIterator[Client]:
        """Yield the lane that may change `.git`; what of it git should not have changed is put back afterwards."""
        client = await self.client(Lane.GIT)
        assert self._chosen is not None
        async with self._git_turn, self._turn(self._chosen.backend):
            await self.custody.begin_git()
            try:
                yield client
            finally:
                findings.append(await to_the_end(self._end_git()))

    def _turn(self, backend: Backend) -> contextlib.AbstractAsyncContextManager[object]:
        return self._one_by_one if backend.is_isolated and not backend.has_mounts else contextlib.nullcontext()

    async def _end_git(self) -> Findings:
        return await self.custody.end_git(await self.client(Lane.MAIN))

    def take_notice(self) -> str:
        """Return once what the user and the model should know about a restart."""
        notice, self._notice = self._notice, ""
        return notice

    async def close(self) -> None:
        """End every supervisor."""
        async with self._starting:
            self._is_closed = True
            for closing in self._closing.values():
                closing.cancel()
            for client in self._clients.values():
                await client.close()
            self._clients.clear()
            if self._chosen is not None:
                await self._chosen.backend.close()
            if self._proxy is not None:
                await self._proxy.close()
        for task in list(self._tasks):
            await task

    async def _start_first(self) -> Chosen:
        try:
            workspace_dir(self.workspace).mkdir(exist_ok=True)  # so that it can be mounted read-only
        except OSError as error:
            what = f"{workspace_dir(self.workspace)} cannot be made: {error.strerror}"
            raise SandboxUnavailable(what, "Move what stands in its place, or free the disk.") from error
        self._had_git = self._has_git()
        chosen = await self._choose()
        self._clients[Lane.MAIN] = chosen.client
        return chosen

    async def _open(self, lane: Lane) -> Client:
        assert self._chosen is not None
        if lane is Lane.MAIN:
            self._had_git = self._has_git()
        client = Client(await self._chosen.backend.open(lane))
        try:
            await client.start()
            if lane is Lane.PLAN and self._chosen.backend.is_isolated and self._chosen.backend.has_shell:
                await plan_lane.verify(client, self.workspace)
        except BaseException:
            await client.close()
            raise
        self._clients[lane] = client
        return client

    def _has_git(self) -> bool:
        path = self.workspace / ".git"
        return path.is_symlink() or path.exists()

    def _postpone_closing(self, lane: Lane) -> None:
        if lane in self._closing:
            self._closing[lane].cancel()
        self._closing[lane] = asyncio.get_running_loop().call_later(_IDLE_S[lane], self._close_lane, lane)

    def _close_lane(self, lane: Lane) -> None:
        client = self._clients.pop(lane, None)
        if client is not None:
            task = asyncio.create_task(client.close())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
