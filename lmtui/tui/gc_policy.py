"""When garbage is collected: while nobody would feel the pause."""

from __future__ import annotations

import gc
from collections.abc import Callable

from textual._styles_cache import StylesCache

YOUNG = 5_000
BATCHES = 2
NEVER_BY_ITSELF = 1_000
ENOUGH = 100_000
COUNT_EVERY = 100  # to count what is set aside takes some ten milliseconds


class GcPolicy:
    """Decides when to collect.  `is_quiet` tells whether a pause would be felt by nobody."""

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        self._is_quiet = is_quiet
        self._looks = 0
        self._living: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Set aside what the program itself is made of."""
        self._set_aside()
        gc.set_threshold(YOUNG, NEVER_BY_ITSELF, NEVER_BY_ITSELF)
        gc.enable()

    def look(self) -> None:
        """Collect what is new, if there is enough of it; cheap where there is not."""
        if gc.get_count()[1] < BATCHES:
            return
        self._looks += 1
        if self._looks % COUNT_EVERY == 0:
            self._count()
        if self._is_due and self._is_quiet():
            gc.unfreeze()
            self._set_aside()
            return
        gc.collect(1)
        gc.freeze()

    def _count(self) -> None:
        now = gc.get_freeze_count()
        self._living = now if self._living is None else self._living
        self._is_due = now - self._living >= ENOUGH

    def _set_aside(self) -> None:
        vars(StylesCache)["get_inner_outer"].cache_clear()  # else what closed widgets drew stays
        gc.collect()
        gc.freeze()
        self._living, self._is_due = None, False
