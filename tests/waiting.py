"""How long a test waits for what must come: long enough for a machine that does much else, and the only such time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE_S = 120.0


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.01)
