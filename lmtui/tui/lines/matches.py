"""Where words stand in a text that is read, and which of the places one is at.  No widget is known here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from lmtui.tui.lines.text import Line, plain, restyle

_MAX_MARKED = 64

Place = TypeVar("Place")


class Matches(Generic[Place]):
    """The places of some words, in order; `at` is the number of the one that was gone to, -1 for none."""

    def __init__(self) -> None:
        self.words = ""
        self.places: Sequence[Place] = ()
        self.at = -1

    def take(self, words: str, places: Sequence[Place]) -> None:
        """Know these from now on; blank words are none."""
        self.words, self.places, self.at = (words, places, -1) if words.strip() else ("", (), -1)

    @property
    def here(self) -> Place | None:
        """Return the place that was gone to."""
        return self.places[self.at] if 0 <= self.at < len(self.places) else None

    @property
    def text(self) -> str:
        """Return which match one is at, in words; empty where nothing is looked for."""
        if not self.words:
            return ""
        return f"{self.at + 1:,} of {len(self.places):,}" if self.places else "not found"

    def go(self, number: int) -> Place:
        """Go to a match by its number, round the end, and return its place."""
        self.at = number % len(self.places)
        return self.places[self.at]

    def marked(self, line: Line, *, is_here: bool) -> Line:
        """Return a line with the words marked in it, those that were gone to more than the others."""
        wanted = self.words.casefold()
        text = plain(line).casefold() if wanted else ""
        at = text.find(wanted) if wanted else -1
        for _ in range(_MAX_MARKED):
            if at < 0:
                break
            line = restyle(line, at, at + len(wanted), "match strong" if is_here else "match")
            at = text.find(wanted, at + len(wanted))
        return line
