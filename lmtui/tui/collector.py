"""When Python looks for garbage: often and over what is new, never over a whole day's objects while somebody types.

A full collection takes as long as there are objects, a tenth of a second for some hundred thousand.  What is alive after a
small one is set aside (`gc.freeze`) and not looked at again; now and then, when nobody looks, everything is.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

YOUNG = 5_000
BATCHES = 2
NEVER_BY_ITSELF = 1_000
THOROUGH_EVERY = 500


class Collector:
    """Decides when to collect.  `is_away` tells whether nobody looks."""

    def __init__(self, is_away: Callable[[], bool]) -> None:
        self._is_away = is_away
        self._count = 0

    def begin(self) -> None:
        """Set aside what the program itself is made of."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, NEVER_BY_ITSELF, NEVER_BY_ITSELF)
        gc.enable()

    def look(self) -> None:
        """Collect what is new, if there is enough of it; cheap where there is not."""
        if gc.get_count()[1] < BATCHES:
            return
        self._count += 1
        is_thorough = self._count >= THOROUGH_EVERY and self._is_away()
        if is_thorough:
            self._count = 0
            gc.unfreeze()
        gc.collect(2 if is_thorough else 1)
        gc.freeze()
