"""Work for the newest of several wishes: one at a time, those that came meanwhile but the last one skipped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

Wish = TypeVar("Wish")


class Latest(Generic[Wish]):
    """Does `work` for a wish, in a worker that `start` gets; what is under way is never cut off.

    `work` finds out by `is_stale` whether something newer is wanted by now.
    """

    def __init__(self, start: Callable[[Coroutine[Any, Any, None]], object], work: Callable[[Wish], Awaitable[None]]) -> None:
        self._start = start
        self._work = work
        self._wishes: list[Wish] = []
        self._is_working = False

    @property
    def is_stale(self) -> bool:
        """Tell whether something newer is wanted."""
        return bool(self._wishes)

    def want(self, wish: Wish) -> None:
        """Do this next, in place of what was to be next."""
        self._wishes = [wish]
        if not self._is_working:
            self._is_working = True
            self._start(self._go_on())

    async def _go_on(self) -> None:
        try:
            while self._wishes:
                await self._work(self._wishes.pop())
        finally:
            self._is_working = False
