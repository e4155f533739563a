"""When keys came: faster than a person types (an unbracketed paste, a program that plays keys), or twice."""

from __future__ import annotations

GAP_S = 0.005
WAIT_S = 0.02
LONG_KEYS = 10
LONG_GAP_S = 0.15  # a large paste is read in pieces, and what was read is drawn between them


STOP_AGAIN = "esc again stops the turn"


class SecondPress:
    """Tells the second press of a key, soon after the first (seconds, any clock that goes forward)."""

    WITHIN_S = 2.0

    def __init__(self) -> None:
        self._first_s = float("-inf")

    def take(self, time_s: float) -> bool:
        """Record a press; return True if it is the second."""
        is_second = time_s - self._first_s < self.WITHIN_S
        self._first_s = float("-inf") if is_second else time_s
        return is_second


class Burst:
    """Follows the times at which keys came (seconds, any clock that goes forward)."""

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._keys = 0
        self.lines = 0

    @property
    def wait_s(self) -> float:
        """How long after its last key a burst may still go on."""
        return LONG_GAP_S if self._keys >= LONG_KEYS else WAIT_S

    def take(self, time_s: float) -> bool:
        """Take note of a key; True where it came right behind the one before."""
        is_close = time_s - self._last_s < (LONG_GAP_S if self._keys >= LONG_KEYS else GAP_S)
        self._last_s = time_s
        self._keys = self._keys + 1 if is_close else 0
        if not is_close:
            self.lines = 0
        return is_close
