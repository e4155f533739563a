"""Keys that come faster than a person types: an unbracketed paste, or a program that plays keys."""

from __future__ import annotations

GAP_S = 0.005
WAIT_S = 0.02


class Burst:
    """Follows the times at which keys came (seconds, any clock that goes forward)."""

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self.lines = 0

    def take(self, time_s: float) -> bool:
        """Take note of a key; True where it came right behind the one before."""
        is_close = time_s - self._last_s < GAP_S
        self._last_s = time_s
        if not is_close:
            self.lines = 0
        return is_close
