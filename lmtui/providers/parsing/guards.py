"""Notices in a stream that a model repeats itself without end: the same characters, the same lines, nothing but blank lines.

Looked at every few hundred characters, at places that do not depend on how the stream was cut.  The thresholds leave rulers,
tables, look-up tables and generated code alone: measured on the sources and lock files of a few hundred packages.
"""

from __future__ import annotations

from collections.abc import Iterator

EVERY_CHARS = 256
MAX_PERIOD = 400
_WINDOW_CHARS = 8192
_NEEDLE_CHARS = 24
_TRIES = 6


class RepetitionGuard:
    """Takes a stream; `period` is the length of what repeats itself at its end, 0 while nothing does.

    The one who feeds it cuts the stream at `room` characters at most.
    """

    def __init__(self) -> None:
        self.period = 0
        self.room = EVERY_CHARS
        self._parts: list[str] = []
        self._tail = ""

    def passes(self, text: str) -> bool:
        """Take a text that does not reach the next place to look at; tell whether it was taken."""
        room = self.room - len(text)
        if room <= 0:
            return False
        self.room = room
        self._parts.append(text)
        return True

    def parts(self, text: str) -> Iterator[str]:
        """Cut a text where the stream is looked at; feed each part before the next is asked for."""
        at = 0
        while at < len(text):
            end = at + self.room
            yield text[at:end]
            at = end

    def feed(self, text: str, *, is_code: bool = False) -> bool:
        """Take at most `room` characters; tell whether the stream is to be stopped.  In code and in calls more is allowed."""
        self._parts.append(text)
        self.room -= len(text)
        if self.room > 0:
            return False
        self.room = EVERY_CHARS
        self._tail = (self._tail + "".join(self._parts))[-_WINDOW_CHARS:]
        self._parts.clear()
        self.period = _period(self._tail, 2 if is_code else 1)
        return self.period > 0


def _period(tail: str, factor: int) -> int:
    """Return the period in which the end of a text repeats itself often enough, else 0."""
    end = len(tail)
    needle = tail[-_NEEDLE_CHARS:]
    at = end - len(needle)
    for _ in range(_TRIES):
        at = tail.rfind(needle, 0, at + len(needle) - 1)
        if at < 0:
            return 0
        period = end - len(needle) - at
        if period > MAX_PERIOD:
            return 0
        size = _enough(tail[-period:]) * factor
        if end >= size + period and tail[end - size :] == tail[end - size - period : end - period]:
            return period
    return 0


def _enough(unit: str) -> int:
    """Return how many characters of repetition are too many, for what is repeated."""
    blank = unit.replace("\\n", "\n")
    if blank.isspace():
        return max(120 if "\n" in blank else 600, 60 * len(unit))
    if len(unit) >= 8 and sum(map(str.isalpha, unit)) >= 4:
        return max(500, 6 * len(unit))
    return 1600


def first_of_many(text: str, period: int) -> int:
    """Return where the first of the repetitions at the end of a text ends."""
    start = max(len(text) - period, 0)
    while start >= period and text[start - period : start] == text[start : start + period]:
        start -= period
    while start > 0 and text[start - 1] == text[start - 1 + period]:
        start -= 1
    return min(start + period, len(text))
