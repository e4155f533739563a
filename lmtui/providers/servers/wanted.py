"""What is to be loaded, and waiting for the reply while time passes visibly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from lmtui.core.servers import LoadProgress, ServedModel, ServerFound
from lmtui.providers.servers.client import Reply

LOAD_LIMIT_S = 3600.0
UNLOAD_LIMIT_S = 60.0
TICK_S = 0.5


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model of a server that is to be loaded; `window_tokens` 0 leaves the window to the server.

    `tick_s` is how often progress is told.
    """

    server: ServerFound
    model: ServedModel
    window_tokens: int = 0
    one_model: bool = False
    tick_s: float = TICK_S


async def passing(task: asyncio.Task[Reply], text: str, tick_s: float) -> AsyncGenerator[LoadProgress, None]:
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
