"""The running supervisors of one workspace, shared by its sessions: started at first use, restarted when lost.

Nothing here knows what a supervisor is asked to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.workspace import SandboxStatus
from lmtui.paths import workspace_dir
from lmtui.sandbox.backend import Backend
from lmtui.sandbox.client import Client
from lmtui.sandbox.link import Lane

_GIT_LANE_IDLE_S = 60.0
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

    def __init__(self, workspace: Path, choose: Callable[[], Awaitable[Chosen]]) -> None:
        self.workspace = workspace
        self.users = 0
        self._choose = choose
        self._chosen: Chosen | None = None
        self._clients: dict[Lane, Client] = {}
        self._starting = asyncio.Lock()
        self._notice = ""
        self._had_git = False
        self._git_was_made = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._git_closing: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def status(self) -> SandboxStatus:
        """Return what runs; starts it where it does not."""
        await self.client(Lane.MAIN)
        assert self._chosen is not None
        return replace(
            self._chosen.status, facts=(*self._chosen.status.facts, self._notice) if self._notice else self._chosen.status.facts
        )

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
        if lane is Lane.GIT:
            self._postpone_git_closing()
        return client

    @contextlib.asynccontextmanager
    async def command_client(self, memory_mb: int) -> AsyncIterator[Client]:
        """Yield the main lane's supervisor for a command; a `.git` that has come since is made read-only first."""
        client = await self.client(Lane.MAIN)
        assert self._chosen is not None
        backend = self._chosen.backend
        if backend.is_isolated and not self._had_git and self._has_git():
            await self._idle.wait()
            async with self._starting:
                if not self._had_git:
                    await self._clients[Lane.MAIN].close()
                    client = await self._open(Lane.MAIN)
            client = await self.client(Lane.MAIN)
        await backend.reserve_memory(memory_mb)
        self._running += 1
        self._idle.clear()
        try:
            yield client
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def note_git_write(self) -> None:
        """Remember that the `.git` which is there now was made by git's own lane."""
        self._git_was_made = self._has_git()

    def set_aside_foreign_git(self) -> str:
        """Move away a `.git` that a command made (its hooks would run outside later); return where to, or nothing."""
        assert self._chosen is not None
        if not self._chosen.backend.is_isolated or self._had_git or self._git_was_made or not self._has_git():
            return ""
        folder = workspace_dir(self.workspace) / "quarantine"
        target = folder / f"git-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}"
        try:
            folder.mkdir(exist_ok=True)
            if folder.is_symlink():
                raise NotADirectoryError(20, "it is a link", str(folder))
            (self.workspace / ".git").rename(target)
        except OSError as error:
            what = "a command made a .git, and it could not be set aside"
            raise SandboxError(f"{what}: {error.strerror}", "Look at it before you run git here yourself.") from error
        return str(target.relative_to(self.workspace))

    def take_notice(self) -> str:
        """Return once what the user and the model should know about a restart."""
        notice, self._notice = self._notice, ""
        return notice

    async def close(self) -> None:
        """End every supervisor."""
        async with self._starting:
            self._is_closed = True
            if self._git_closing is not None:
                self._git_closing.cancel()
            for client in self._clients.values():
                await client.close()
            self._clients.clear()
            if self._chosen is not None:
                await self._chosen.backend.close()
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
        except BaseException:
            await client.close()
            raise
        self._clients[lane] = client
        return client

    def _has_git(self) -> bool:
        path = self.workspace / ".git"
        return path.is_symlink() or path.exists()

    def _postpone_git_closing(self) -> None:
        if self._git_closing is not None:
            self._git_closing.cancel()
        self._git_closing = asyncio.get_running_loop().call_later(_GIT_LANE_IDLE_S, self._close_git_lane)

    def _close_git_lane(self) -> None:
        client = self._clients.pop(Lane.GIT, None)
        if client is not None:
            task = asyncio.create_task(client.close())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
