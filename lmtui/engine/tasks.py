"""Work in own tasks: what is done to its end though its caller is stopped, and what is done at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
_PATIENCE_S = 15.0


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of it in parallel; if one fails, cancel the others."""
    running = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*running)
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work though its caller is cancelled meanwhile, once or more: the cancel passes on after it.

    What takes more than 15 s after a cancel is given up.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            if cancelled is None:
                loop.call_later(_PATIENCE_S, task.cancel)
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen; the cancel is what the caller waits for
        raise cancelled
    return task.result()
