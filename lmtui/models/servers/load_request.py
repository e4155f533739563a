"""Waits until the memory of an unloaded model has come back: a model that is loaded too early is refused or swaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import psutil

from lmtui.core.servers import LoadProgress, ServedModel, ServerFound
from lmtui.models.servers.server_client import ServerReply

LOAD_LIMIT_S = 3600.0
UNLOAD_LIMIT_S = 60.0
TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A model of a server that is to be loaded; `window_tokens` 0 leaves the window to the server.

    `tick_s` is how often progress is told.
    """

    server: ServerFound
    model: ServedModel
    window_tokens: int = 0
    one_model: bool = False
    tick_s: float = TICK_S


async def passing(task: asyncio.Task[ServerReply], text: str, tick_s: float) -> AsyncGenerator[LoadProgress, None]:
    """Tell the time until a request is answered; closed before that, it gives the request up."""
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        while not task.done():
            yield LoadProgress(f"{text}, {clock() - started:.0f} s")
            _ = await asyncio.wait([task], timeout=tick_s)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def loaded(window_tokens: int, asked_tokens: int = 0, name: str = "") -> LoadProgress:
    """Return the last word on a load: what window is served, and whether that is what was asked for."""
    as_name = f" as {name}" if name else ""
    if not window_tokens:
        return LoadProgress(f"loaded{as_name}", 1.0)
    instead = f", not {asked_tokens:,}" if asked_tokens and window_tokens != asked_tokens else ""
    return LoadProgress(f"loaded{as_name}, window {window_tokens:,}{instead}", 1.0)


_GIB = 1024**3
_NOISE_BYTES = 64 * 1024**2


def available_bytes() -> int:
    """Return how much memory programs can still have."""
    return int(psutil.virtual_memory().available)


@dataclass(frozen=True, slots=True)
class MemoryGate:
    """The limits of the wait: at most `limit_s`, and no longer than `steady_s` without anything coming back.

    What was on a graphics card never comes back here: then the second limit ends the wait.  `share` is how much of the
    model's size has to come back.
    """

    available: Callable[[], int] = available_bytes
    limit_s: float = 20.0
    steady_s: float = 3.0
    share: float = 0.6
    tick_s: float = 0.25

    async def wait(self, before_bytes: int, freed_bytes: int) -> AsyncGenerator[LoadProgress, None]:
        """Wait after an unload; `before_bytes` was available before it, `freed_bytes` is the size of what went."""
        clock = asyncio.get_running_loop().time
        wanted = before_bytes + int(freed_bytes * self.share)
        started = changed = clock()
        most = self.available()
        while freed_bytes and (most < wanted):
            if clock() - started >= self.limit_s or clock() - changed >= self.steady_s:
                return
            yield LoadProgress(f"waiting for memory: {most / _GIB:.1f} of {wanted / _GIB:.1f} GiB are free")
            await asyncio.sleep(self.tick_s)
            now = self.available()
            if now > most + _NOISE_BYTES:
                most, changed = now, clock()
