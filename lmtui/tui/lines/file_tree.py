"""The workspace's files as a tree.  It asks for listings by message and shows what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from textual.message import Message

from lmtui.core.clean import clean_line
from lmtui.core.events import Envelope
from lmtui.core.workspace import DirEntry, FileChange, FileChangeKind
from lmtui.tui.changed_files import ChangedFiles
from lmtui.tui.lines.calls import CHANGE_SIGNS
from lmtui.tui.lines.row_view import RowView
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, fit_middle, row
from lmtui.tui.lines.tree_rows import TreeRow, TreeRows

_OPEN, _CLOSED, _INDENT = "▾ ", "▸ ", "  "
_INSIDE: Line = (("• ", "warn"),)


class FileTree(RowView, can_focus=True, inherit_bindings=False):
    """A tree of files.  Give it every event of the session, so that changed files are marked."""

    empty_text = "The files of the workspace will be listed here."

    @dataclass
    class ListingWanted(Message):
        """Somebody should call `set_listing(path, …)`; `""` is the workspace itself."""

        tree: FileTree
        path: str

        @property
        def control(self) -> FileTree:
            """Return the tree."""
            return self.tree

    @dataclass
    class FileChosen(Message):
        """The user wants to see a file."""

        tree: FileTree
        path: str

        @property
        def control(self) -> FileTree:
            """Return the tree."""
            return self.tree

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._tree = TreeRows()
        self._changed_files = ChangedFiles()
        self._changed_folders: set[str] = set()
        self._asked: set[str] = set()

    @property
    def changed_count(self) -> int:
        """Return how many files are marked."""
        return len(self._changed)

    @property
    def current_path(self) -> str:
        """Return the path under the cursor, empty where there is none."""
        return self._tree.rows[self.cursor].path if self.cursor < len(self._tree.rows) else ""

    def on_mount(self) -> None:
        """Ask for the workspace's own listing."""
        self._ask("")

    def apply(self, envelope: Envelope) -> None:
        """Take one event: mark what changed, and ask again for folders whose listing is no longer right."""
        changes = self._changed_files.apply(envelope)
        for path, change in changes.items():
            if change.kind is not FileChangeKind.MODIFIED:
                self._ask(next((each for each in (*_folders_of(path), "") if self._tree.is_listed(each)), ""))
        if changes:
            self._mark()

    def show_changes(self, changed_files: ChangedFiles) -> None:
        """Mark the files of another session."""
        self._changed_files = changed_files.copy()
        self._mark()

    def _mark(self) -> None:
        self._changed_folders = {folder for path in self._changed for folder in _folders_of(path)}
        self.redraw()

    @property
    def _changed(self) -> Mapping[str, FileChange]:
        return self._changed_files.net

    def set_listing(self, path: str, entries: Sequence[DirEntry]) -> None:
        """Take what is in a folder, in the order to show; the cursor stays on its file."""
        self._asked.discard(path)
        self._keep_place(lambda: self._tree.set_listing(path, entries))

    def set_filter(self, text: str) -> None:
        """Show only paths with this text in them; an empty text shows all."""
        self._keep_place(lambda: self._tree.set_filter(text))

    def line_total(self) -> int:
        """Return how many rows are shown."""
        return len(self._tree.rows)

    def row_at(self, row: int) -> Line:
        """Return a file or folder with its mark."""
        return self._drawn(self._tree.rows[row])

    def choose(self) -> None:
        """Open or close the folder, or ask for the file to be shown."""
        if self.cursor < len(self._tree.rows):
            self._act(self._tree.rows[self.cursor])

    def action_expand(self) -> None:
        """Open the folder, or go into an open one."""
        if self.cursor < len(self._tree.rows):
            own = self._tree.rows[self.cursor]
            if own.is_dir and self._tree.is_open(own.path):
                self.move_cursor(1)
            elif own.is_dir:
                self._open(own.path)

    def action_collapse(self) -> None:
        """Close the folder, or go to the one that the row is in."""
        if self.cursor < len(self._tree.rows):
            own = self._tree.rows[self.cursor]
            if own.is_dir and self._tree.is_open(own.path):
                self._keep_place(lambda: self._tree.close(own.path))
            elif self._tree.parent(self.cursor) >= 0:
                self.put_cursor(self._tree.parent(self.cursor))

    def _act(self, own: TreeRow) -> None:
        if not own.is_dir:
            self.post_message(self.FileChosen(self, own.path))
        elif self._tree.is_open(own.path):
            self._keep_place(lambda: self._tree.close(own.path))
        else:
            self._open(own.path)

    def _open(self, path: str) -> None:
        self._keep_place(lambda: self._tree.open(path))
        if not self._tree.is_listed(path):
            self._ask(path)

    def _ask(self, path: str) -> None:
        if path not in self._asked and self.is_attached:
            self._asked.add(path)
            self.post_message(self.ListingWanted(self, path))

    def _drawn(self, own: TreeRow) -> Line:
        is_open = own.is_dir and (self._tree.is_open(own.path) or bool(self._tree.filter_text))
        sign = "" if not own.is_dir else _OPEN if is_open else _CLOSED
        lead = f" {_INDENT * own.depth}{sign or '  '}"
        mark: Line = ()
        if own.path in self._changed:
            letter, role = CHANGE_SIGNS[self._changed[own.path].kind]
            mark = ((f"{letter} ", role),)
        elif own.is_dir and not is_open and own.path in self._changed_folders:
            mark = _INSIDE
        room = self.content_width - len(lead) - 5
        name = clean_line(own.name) + ("/" if own.is_dir else "")
        return row(((lead, "muted"), (fit_middle(name, max(6, room)), "")), mark, self.content_width)

    def _keep_place(self, change: Callable[[], None]) -> None:
        path = self.current_path
        change()
        index = self._tree.index(path) if path else -1
        self.cursor = index if index >= 0 else max(0, min(self.cursor, len(self._tree.rows) - 1))
        self.redraw()


def _folders_of(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
