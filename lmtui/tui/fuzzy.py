"""Finds paths by a few of their characters, among a hundred thousand as one types.  Plain values: fit for a thread."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_FOUND = 500
_MAX_RANKED = 2_000


class FuzzyPaths:
    """Paths to be searched.  Characters have to come in the order typed; a name that has them side by side comes first.

    What was found for a text is narrowed when more is typed.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._folded = [path.casefold() for path in paths]
        self._all = sorted(range(len(paths)), key=lambda at: len(self._folded[at]))  # the short ones first, once for all
        self._last: tuple[str, list[int]] = ("", self._all)

    def search(self, text: str) -> tuple[list[str], int]:
        """Return the best paths for a text, best first, and how many there are in all; an empty text finds all."""
        wanted = "".join(text.casefold().split())
        before, among = self._last
        if not wanted.startswith(before):
            among = self._all
        found = self._having(wanted, among)
        self._last = (wanted, found)
        return [self.paths[at] for at in self._best(wanted, found)], len(found)

    def _having(self, wanted: str, among: list[int]) -> list[int]:
        if not wanted:
            return among
        folded = self._folded
        if len(wanted) == 1:
            return [at for at in among if wanted in folded[at]]
        is_match = _in_order(wanted).match
        return [at for at in among if is_match(folded[at])]

    def _best(self, wanted: str, found: list[int]) -> list[int]:
        folded = self._folded
        if len(found) > _MAX_RANKED:
            whole = [at for at in found if wanted in folded[at]]
            found = (whole if len(whole) >= MAX_FOUND else found)[:_MAX_RANKED]
        return sorted(found, key=lambda at: _rank(wanted, folded[at]))[:MAX_FOUND]


def _in_order(wanted: str) -> re.Pattern[str]:
    """Return what matches texts with these characters in order, without ever going back (so it is linear)."""
    return re.compile("".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in wanted), re.DOTALL)


def _rank(wanted: str, path: str) -> tuple[int, int, str]:
    name = path.rpartition("/")[2]
    if name.startswith(wanted):
        return 0, len(path), path
    if wanted in name:
        return 1, len(path), path
    if wanted in path:
        return 2, len(path), path
    first, last = _span(wanted, path)
    return 3, last - first, path


def _span(wanted: str, path: str) -> tuple[int, int]:
    places = positions(wanted, path)
    return (places[0], places[-1]) if places else (0, len(path))


def positions(text: str, path: str) -> list[int]:
    """Return which characters of a path were found: a whole run in its name or anywhere if there is one, else from the end."""
    folded, wanted = path.casefold(), "".join(text.casefold().split())
    if len(folded) != len(path) or not wanted:
        return []
    run = folded.rfind(wanted)
    if run >= 0:
        return list(range(run, run + len(wanted)))
    found: list[int] = []
    end = len(folded)
    for char in reversed(wanted):
        end = folded.rfind(char, 0, end)
        if end < 0:
            return []
        found.append(end)
    return found[::-1]
