"""All paths of a workspace, ready to be searched while somebody types.

Ranks: name prefix, word prefix in the name, substring of the name, substring of the path, subsequence;
ties: recently used, then shorter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

MAX_FUZZY = 500
_MAX_RANKED = 2_000


class FuzzyPaths:
    """Paths to be searched.  Characters have to come in the order typed; a name that has them side by side comes first."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._folded = [path.casefold() for path in paths]
        self._all = sorted(range(len(paths)), key=lambda at: len(self._folded[at]))  # the short ones first, once for all

    def search(self, text: str, recent: Collection[str] = ()) -> tuple[list[str], int]:
        """Return the best paths for a text, best first, and how many there are in all; an empty text finds all.

        Of those that fit alike, the `recent` ones come first.  Takes a while where there are many: call it in a thread.
        """
        wanted = "".join(text.casefold().split())
        # characters in order, without ever going back, so it is linear
        is_match = re.compile("".join(f"[^{re.escape(char)}]*+{re.escape(char)}" for char in wanted), re.DOTALL).match
        found = [at for at in self._all if is_match(self._folded[at])]
        return [self.paths[at] for at in self._best(wanted, found, recent)], len(found)

    def _best(self, wanted: str, found: list[int], recent: Collection[str]) -> list[int]:
        folded = self._folded
        if len(found) > _MAX_RANKED:
            whole = [at for at in found if wanted in folded[at]]
            found = (whole if len(whole) >= MAX_FUZZY else found)[:_MAX_RANKED]

        def key(at: int) -> tuple[int, bool, int, int, str]:
            rank, apart, length = _rank(wanted, folded[at])
            return rank, self.paths[at] not in recent, apart, length, folded[at]

        return sorted(found, key=key)[:MAX_FUZZY]


def _rank(wanted: str, path: str) -> tuple[int, int, int]:
    """Return how well a path fits, folded: its kind of fit, how far its characters are apart, and its length."""
    name = path[path.rfind("/", 0, len(path) - 1) + 1 :]
    length = len(path) + (1000 * path.count("/", 0, -1) if wanted.endswith("/") else 0)
    if "/" in wanted and wanted in path:
        return 0 if path.startswith(wanted) else 1 if f"/{wanted}" in path else 3, 0, length
    at = name.find(wanted)
    if at >= 0:
        return 0 if not at else 2 if name[at - 1].isalnum() else 1, 0, length
    if wanted in path:
        return 3, 0, length
    places = positions(wanted, path)
    return 4, places[-1] - places[0] if places else len(path), length


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


MAX_FOUND = 8


def offered_paths(index: FuzzyPaths, query: str, recent: Sequence[str]) -> list[str]:
    """Return a few paths to complete what is typed; for nothing, what was used lately and the top of the workspace."""
    if query:
        return [path for path in index.search(query, recent)[0] if path.casefold() != query.casefold()][:MAX_FOUND]
    known = frozenset(index.paths)
    lately = [path for path in recent if path in known]
    top = (path for path in index.paths if path.find("/") in (-1, len(path) - 1))
    return list(dict.fromkeys((*lately, *top)))[:MAX_FOUND]
