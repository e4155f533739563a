"""Whether the end of a row of calls repeats itself: A A A, or with a period of two to five A B A B, A B C A B C.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

LONGEST = 5
_TOLD = 3
_OVER, _OVER_CHANGING = 4, 6


@dataclass(frozen=True, slots=True)
class Seen:
    """A call with its result, by a key that is equal for equal ones; `words` name it, `has_changed`: it changed something.

    `given` is the same key before anything was taken out of the call for the log, where that is known.
    """

    key: tuple[str, str, str]
    words: str = ""
    has_changed: bool = False
    given: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Circle:
    """The calls that come again in turn, and how often they came."""

    calls: tuple[Seen, ...]
    count: int
    is_over: bool


def row_at_end(trail: Sequence[Seen]) -> int:
    """Return how often the last call was made in a row, with nothing changed meanwhile."""
    return sum(1 for _ in takewhile(lambda each: each.key == trail[-1].key and not each.has_changed, reversed(trail)))


def circle_at_end(trail: Sequence[Seen]) -> Circle | None:
    """Return the circle with which a row of calls ends, None where it came fewer than three times.

    Calls that change something may honestly come again: they need more rounds.
    """
    calls = tuple(trail)
    for period in range(2, LONGEST + 1):
        last = calls[-period:]
        keys = [each.key for each in last]
        if len(calls) < period * _TOLD or len(set(keys)) == 1:
            continue
        count = 1
        while [each.key for each in calls[-period * (count + 1) : -period * count]] == keys:
            count += 1
        enough = _OVER_CHANGING if any(each.has_changed for each in calls[-period * count :]) else _OVER
        if count >= _TOLD:
            return Circle(last, count, count >= enough)
    return None
