"""One queue for a server's slots: local servers work on one request at a time, and a stranger's request evicts their cache.

What a person waits for comes first, then children, then titles and the like; of equals the conversation that had the slot last
comes first, because its prompt is still in the server's cache; it may go before others only so often.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lmtui.core.messages import Urgency

_MOST_IN_A_ROW = 8


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request that waits: whose it is, how urgent, and the future that is done when its turn comes."""

    owner: int
    urgency: Urgency
    number: int
    turn: asyncio.Future[None] = field(repr=False)


class Slots:
    """The slots of one endpoint."""

    def __init__(self, count: int = 1) -> None:
        self._count = max(1, count)
        self._busy = 0
        self._waiting: list[_Waiter] = []
        self._numbers = itertools.count()
        self._last_owner = -1
        self._in_a_row = 0

    @property
    def count(self) -> int:
        """Return how many requests the server works on at once."""
        return self._count

    def resize(self, count: int) -> None:
        """Take another number of slots; requests that run go on."""
        self._count = max(1, count)
        self._admit()

    def before(self, owner: int, urgency: Urgency) -> int:
        """Return how many requests would be served before this one: those that run and hold every slot, and those ahead."""
        if self._busy < self._count and not self._waiting:
            return 0
        return self._busy + sum(each.urgency <= urgency for each in self._waiting if each.owner != owner)

    @asynccontextmanager
    async def take(self, owner: int, urgency: Urgency) -> AsyncIterator[None]:
        """Hold a slot; waits for one.  `owner` tells conversations apart."""
        waiter = _Waiter(owner, urgency, next(self._numbers), asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:  # its turn came in the moment of the cancel
                self._release()
            raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self._busy -= 1
        self._admit()

    def _admit(self) -> None:
        """Give free slots to those whose turn it is."""
        while self._waiting and self._busy < self._count:
            waiter = min(self._waiting, key=self._order)
            self._waiting.remove(waiter)
            self._in_a_row = self._in_a_row + 1 if waiter.owner == self._last_owner else 0
            self._last_owner = waiter.owner
            self._busy += 1
            waiter.turn.set_result(None)

    def _order(self, waiter: _Waiter) -> tuple[int, bool, int]:
        is_hot = waiter.owner == self._last_owner and self._in_a_row < _MOST_IN_A_ROW
        return (waiter.urgency, not is_hot, waiter.number)
