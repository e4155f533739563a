"""All paths of a workspace, ready to be searched while somebody types: in slices, so that no key waits.

Ranks: the name begins so, a word of the name begins so, the name holds it, the path holds it, its letters stand in order;
within a rank what was used lately, then what is short.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

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
    """Paths beside their lower-case forms, and those at the top of the workspace."""

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
