"""Places at the model: as many sub-agents of a session are at work as the endpoint serves at once, however deep they stand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class Places:
    """Hands out places in the order in which they were asked for.

    Args:
        count: tells how many there are; it may change, and counts as 1 at least.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Hold a place; wait until one is free."""
        await self._take()
        try:
            yield
        finally:
            self._give()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Let others have the place that is held, and wait for one at the end; who fails or is stopped does not wait."""
        self._give()
        has_one = False
        try:
            yield
            await self._take()
            has_one = True
        finally:
            if not has_one:
                self._taken += 1  # whoever holds it is about to give it back

    async def _take(self) -> None:
        if self._taken < max(1, self._count()) and not self._waiting:
            self._taken += 1
            return
        ready = asyncio.get_running_loop().create_future()
        self._waiting.append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self._give()
            else:
                self._waiting.remove(ready)
            raise

    def _give(self) -> None:
        self._taken -= 1
        while self._waiting and self._taken < max(1, self._count()):
            ready = self._waiting.popleft()
            if not ready.done():
                self._taken += 1
                ready.set_result(None)
