"""The rows of a file tree: folders that were listed, which of them are open, what a filter leaves.  No disk here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lmtui.core.workspace import DirEntry


class TreeRow(NamedTuple):
    """One row; `depth` counts from 0.  (A named tuple, not a dataclass: a hundred thousand are made at once.)"""

    path: str
    is_dir: bool
    depth: int

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition("/")[2]


class TreeRows:
    """Visible rows in a flat list: opening a folder puts its rows in, closing takes them out."""

    def __init__(self) -> None:
        self.rows: list[TreeRow] = []
        self._listings: dict[str, tuple[DirEntry, ...]] = {}
        self._open: set[str] = {""}
        self._filter = ""

    @property
    def filter_text(self) -> str:
        """Return what the rows are filtered by."""
        return self._filter

    def is_open(self, path: str) -> bool:
        """Tell whether a folder shows what is in it."""
        return path in self._open

    def is_listed(self, path: str) -> bool:
        """Tell whether it is known what is in a folder."""
        return path in self._listings

    def set_listing(self, path: str, entries: Sequence[DirEntry]) -> None:
        """Take what is in a folder, in the order to show; the folders open in it stay open."""
        self._listings[path] = tuple(entries)
        if self._filter or path == "":
            self._build()
        elif path in self._open:
            row = self.index(path)
            if row >= 0:
                self._take_out(row)
                self._put_in(row)

    def open(self, path: str) -> None:
        """Show what is in a folder."""
        self._open.add(path)
        row = self.index(path)
        if row >= 0 and not self._filter:
            self._take_out(row)
            self._put_in(row)

    def close(self, path: str) -> None:
        """Hide what is in a folder."""
        self._open.discard(path)
        row = self.index(path)
        if row >= 0 and not self._filter:
            self._take_out(row)

    def set_filter(self, text: str) -> None:
        """Show only the files and folders, of those listed, whose path has the text in it, and the folders above them."""
        self._filter = text.casefold()
        self._build()

    def index(self, path: str) -> int:
        """Return the row of a path, -1 where it is not shown."""
        return next((row for row, each in enumerate(self.rows) if each.path == path), -1)

    def parent(self, row: int) -> int:
        """Return the row of the folder that a row is in, -1 at the top."""
        depth = self.rows[row].depth
        return next((at for at in range(row - 1, -1, -1) if self.rows[at].depth < depth), -1)

    def _build(self) -> None:
        self.rows = list(self._matching("", 0)) if self._filter else list(self._below("", 0))

    def _below(self, path: str, depth: int) -> Iterator[TreeRow]:
        for entry in self._listings.get(path, ()):
            is_dir = entry.kind == "dir"
            yield TreeRow(entry.path, is_dir, depth)
            if is_dir and entry.path in self._open:
                yield from self._below(entry.path, depth + 1)

    def _matching(self, path: str, depth: int) -> Iterator[TreeRow]:
        for entry in self._listings.get(path, ()):
            is_dir = entry.kind == "dir"
            inside = list(self._matching(entry.path, depth + 1)) if is_dir else []
            if inside or self._filter in entry.path.casefold():
                yield TreeRow(entry.path, is_dir, depth)
                yield from inside

    def _take_out(self, row: int) -> None:
        depth = self.rows[row].depth
        end = row + 1
        while end < len(self.rows) and self.rows[end].depth > depth:
            end += 1
        del self.rows[row + 1 : end]

    def _put_in(self, row: int) -> None:
        own = self.rows[row]
        self.rows[row + 1 : row + 1] = self._below(own.path, own.depth + 1)
