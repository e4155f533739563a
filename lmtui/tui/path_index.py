"""All paths of a workspace, ready to be searched while somebody types: in slices, so that no key waits.

Ranks: the name begins so, a word of the name begins so, the name holds it, the path holds it, its letters are in order;
within a rank what was used lately, then what is short.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

MAX_FUZZY = 500
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
            found = (whole if len(whole) >= MAX_FUZZY else found)[:_MAX_RANKED]
        return sorted(found, key=lambda at: _rank(wanted, folded[at]))[:MAX_FUZZY]


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


MAX_FOUND = 8
_SLICE = 1000
_LOOSE = 4
Rank = tuple[int, bool, int, str]


def with_folders(paths: Iterable[str]) -> list[str]:
    """Return files with the folders they are in, which end in `/`."""
    files = list(paths)
    folders: set[str] = set()
    for path in files:
        end = path.rfind("/")
        while end > 0 and path[: end + 1] not in folders:
            folders.add(path[: end + 1])
            end = path.rfind("/", 0, end)
    return sorted(folders) + files


@dataclass(frozen=True, slots=True)
class PathIndex:
    """Paths next to their lower-case forms, and those at the top of the workspace."""

    paths: Sequence[str]
    lowered: Sequence[str]
    known: Collection[str]
    top: Sequence[str]

    @classmethod
    def of(cls, files: Iterable[str]) -> PathIndex:
        """Prepare files for searching; takes a while where there are many, so call it in a thread."""
        paths = with_folders(files)
        top = [path for path in paths if path.find("/") in (-1, len(path) - 1)]
        return cls(paths, [path.lower() for path in paths], frozenset(paths), top)


class PathSearch:
    """Searches one index; a query that grows looks only at what fitted before."""

    def __init__(self, index: PathIndex) -> None:
        self._index = index
        self._query = ""
        self._fitting: Sequence[int] | None = None

    async def find(self, query: str, recent: Collection[str] = ()) -> list[str]:
        """Return the best paths; lets others run every millisecond or so.  May be cancelled: nothing is kept then."""
        if not query:
            return self._first(recent)
        wanted = query.lower()
        is_narrower = self._fitting is not None and self._query != "" and wanted.startswith(self._query)
        candidates = self._fitting if is_narrower and self._fitting is not None else range(len(self._index.paths))
        pattern = re.compile("".join(f"[^{re.escape(char)}]*{re.escape(char)}" for char in wanted), re.DOTALL)
        folder = wanted if wanted.endswith("/") else None
        best: list[Rank] = []
        fitting: list[int] = []
        for start in range(0, len(candidates), _SLICE):
            for i in candidates[start : start + _SLICE]:
                lower = self._index.lowered[i]
                if (wanted in lower or pattern.match(lower)) and lower != folder:
                    fitting.append(i)
                    best.append(self._rank(i, wanted, recent))
            best = heapq.nsmallest(MAX_FOUND, best)
            await asyncio.sleep(0)
        self._query, self._fitting = wanted, fitting
        return [path for _, _, _, path in best]

    def _first(self, recent: Collection[str]) -> list[str]:
        """Return what to offer where nothing is typed: what was used lately, then the top of the workspace."""
        lately = [path for path in recent if path in self._index.known]
        return list(dict.fromkeys((*lately[:MAX_FOUND], *self._index.top[:MAX_FOUND])))[:MAX_FOUND]

    def _rank(self, i: int, wanted: str, recent: Collection[str]) -> Rank:
        path, lower = self._index.paths[i], self._index.lowered[i]
        name = lower[lower.rfind("/", 0, len(lower) - 1) + 1 :]
        if "/" in wanted:
            rank = 0 if lower.startswith(wanted) else 1 if f"/{wanted}" in lower else 3 if wanted in lower else _LOOSE
        elif wanted in name:
            at = name.find(wanted)
            rank = 0 if at == 0 else 1 if not name[at - 1].isalnum() else 2
        else:
            rank = 3 if wanted in lower else _LOOSE
        depth = path.count("/", 0, -1) * 1000 if wanted.endswith("/") else 0
        return rank, path not in recent, depth + len(path), path
