"""Waiting for work that must be done whatever happens to who waits: stopping a command, looking at what it left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine yields to its loop
    """Do the work and return what it returns; a cancel, or several, meanwhile is raised after it, never instead of it.

    The work has to have a limit of its own.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen; the cancel is what the caller asked for
        raise cancelled
    return task.result()
