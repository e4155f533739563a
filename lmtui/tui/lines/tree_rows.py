"""The rows of a file tree: folders that were listed, which of them are open, what is left out.  No disk here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lmtui.core.workspace import DirEntry


class TreeRows:
    """Visible rows in a flat list: opening a folder puts its rows in, closing takes them out.

    A listing has its folders first, so that a hundred thousand files of one folder are taken up as they are.
    """

    def __init__(self) -> None:
        self.rows: list[DirEntry] = []
        self.shows_hidden = False
        self._listings: dict[str, tuple[DirEntry, ...]] = {}
        self._open: set[str] = {""}
        self._ignored: frozenset[str] = frozenset()

    @property
    def open_folders(self) -> list[str]:
        """Return the folders whose contents are shown."""
        return ["", *(row.path for row in self.rows if row.kind == "dir" and row.path in self._open)]

    def is_open(self, path: str) -> bool:
        """Tell whether a folder shows what is in it."""
        return path in self._open

    def is_listed(self, path: str) -> bool:
        """Tell whether it is known what is in a folder."""
        return path in self._listings

    def is_ignored(self, path: str) -> bool:
        """Tell whether ignore rules leave a path out, by itself or with a folder above it."""
        while path and self._ignored:
            if path in self._ignored:
                return True
            path = path.rpartition("/")[0]
        return False

    def set_listing(self, path: str, entries: Sequence[DirEntry]) -> None:
        """Take what is in a folder; the folders open in it stay open."""
        self._listings[path] = tuple(entries)
        if path == "":
            self._build()
        elif path in self._open:
            self._replace(path)

    def drop_listing(self, path: str) -> None:
        """Forget a folder that is gone."""
        if path:
            self._listings.pop(path, None)
            self.close(path)

    def set_ignored(self, paths: Collection[str]) -> None:
        """Take which files and folders ignore rules leave out."""
        if self._ignored != paths:
            self._ignored = frozenset(paths)
            self._build()

    def show_hidden(self, shows_hidden: bool) -> None:
        """Show what ignore rules leave out, or do not."""
        self.shows_hidden = shows_hidden
        self._build()

    def open(self, path: str) -> None:
        """Show what is in a folder."""
        self._open.add(path)
        self._replace(path)

    def close(self, path: str) -> None:
        """Hide what is in a folder."""
        self._open.discard(path)
        row = self.index(path)
        if row >= 0:
            self._take_out(row)

    def index(self, path: str, near: int = -1) -> int:
        """Return the row of a path, -1 where it is not shown; `near` is where it may still be."""
        if 0 <= near < len(self.rows) and self.rows[near].path == path:
            return near
        return next((row for row, each in enumerate(self.rows) if each.path == path), -1)

    def parent(self, row: int) -> int:
        """Return the row of the folder that a row is in, -1 at the top."""
        return self.index(self.rows[row].path.rpartition("/")[0])

    def _build(self) -> None:
        self.rows = self._below("")

    def _below(self, path: str) -> list[DirEntry]:
        entries = self._seen(path)
        found: list[DirEntry] = []
        for at, entry in enumerate(entries):
            if entry.kind != "dir":
                found += entries[at:]
                break
            found.append(entry)
            if entry.path in self._open:
                found += self._below(entry.path)
        return found

    def _seen(self, path: str) -> Sequence[DirEntry]:
        entries = self._listings.get(path, ())
        if self.shows_hidden or not self._ignored or self.is_ignored(path):
            return entries
        ignored = self._ignored
        return [entry for entry in entries if entry.path not in ignored]

    def _replace(self, path: str) -> None:
        row = self.index(path)
        if row >= 0:
            self._take_out(row)
            self.rows[row + 1 : row + 1] = self._below(path)

    def _take_out(self, row: int) -> None:
        inside = self.rows[row].path + "/"
        end = row + 1
        while end < len(self.rows) and self.rows[end].path.startswith(inside):
            end += 1
        del self.rows[row + 1 : end]
