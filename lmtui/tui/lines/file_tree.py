"""The workspace's files as a tree.  It asks by message, shows what it is given."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Unpack

from textual.binding import BindingType
from textual.message import Message

from lmtui.core.events import Envelope, FilesChanged, FilesRestored, ToolCallFinished, TurnEnded
from lmtui.core.sanitize import sanitize_path
from lmtui.core.workspace import DirEntry, FileChangeKind, GitState
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.calls import CHANGE_SIGNS
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import (
    Line,
    LineSource,
    Span,
    StyleRole,
    fit_middle,
    join_roles,
    row,
    width_of,
)
from lmtui.tui.lines.table import RowCursor
from lmtui.tui.session_state import ChangedFiles
from lmtui.tui.timing import WidgetOptions

GIT_SIGNS: Mapping[GitState, Span] = {
    GitState.MODIFIED: ("M", "warn"),
    GitState.ADDED: ("A", "good"),
    GitState.DELETED: ("D", "bad"),
    GitState.RENAMED: ("R", "warn"),
    GitState.CONFLICTED: ("!", "bad strong"),
    GitState.UNTRACKED: ("?", "good"),
}
_INSIDE: Span = ("•", "warn")


class TreeMarks:
    """Git's states and the agent's changes, by path."""

    def __init__(self) -> None:
        self.agent = ChangedFiles()
        self._agent_folders: frozenset[str] = frozenset()
        self._git: Mapping[str, GitState] = {}
        self._has_git = False
        self._unread: set[str] = set()  # changed since git was asked
        self._git_folders: frozenset[str] = frozenset()

    def take_agent(self, paths: Collection[str] = ()) -> None:
        """Take up what the agent changed by now, the last of it these paths."""
        self._unread |= {*paths}
        self._agent_folders = frozenset(folder for path in self.agent.net for folder in folders_of(path))

    def take_git(self, states: Mapping[str, GitState], *, has_git: bool = True) -> None:
        """Take up git's states; what has none is as it was committed."""
        self._git, self._has_git, self._unread = states, has_git, set()
        changed = (path for path, state in states.items() if state is not GitState.IGNORED)
        self._git_folders = frozenset(folder for path in changed for folder in folders_of(path))

    def sign(self, path: str) -> Line:
        """Return the letter of a file: the agent's in bold, else git's; for a folder, whether something in it changed."""
        state, change = self._git.get(path), self.agent.net.get(path)
        is_committed = self._has_git and state is None and path not in self._unread
        if change is not None and state is not GitState.CONFLICTED and not is_committed:
            letter, role = CHANGE_SIGNS[change.kind]
            return ((letter, join_roles(role, "strong")),)
        if state is not None:
            return () if state is GitState.IGNORED else (GIT_SIGNS[state],)
        if path in self._git_folders or (path in self._agent_folders and not self._has_git):
            return (_INSIDE,)
        above = next((self._git[folder] for folder in folders_of(path) if folder in self._git), None)
        return (GIT_SIGNS[above],) if above is GitState.UNTRACKED else ()


def folders_of(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, without the workspace itself."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


class TreeRows:
    """Visible rows in a flat list, made again with each change.

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

    def set_listing(self, path: str, entries: Sequence[DirEntry] | None) -> None:
        """Take what a folder holds; None for one below that cannot be read any more, which closes it."""
        if entries is not None:
            self._listings[path] = tuple(entries)
            self._build()
        elif path:
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
        self._build()

    def close(self, path: str) -> None:
        """Hide what is in a folder."""
        self._open.discard(path)
        self._build()

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
        return [entry for entry in entries if entry.path not in self._ignored]


_OPEN, _CLOSED, _INDENT = "▾ ", "▸ ", "  "
_LEAST_NAME = 6


class FileRows(LineSource):
    """The rows of a file tree with their marks."""

    def __init__(self) -> None:
        self.tree = TreeRows()
        self.marks = TreeMarks()

    def total(self) -> int:
        """Return how many rows are shown."""
        return len(self.tree.rows)

    def line(self, number: int) -> Line:
        """Return a file or folder with its marks."""
        own = self.tree.rows[number]
        is_dir = own.kind == "dir"
        is_open = is_dir and self.tree.is_open(own.path)
        indent = f"{_INDENT * own.path.count('/')}{'  ' if not is_dir else _OPEN if is_open else _CLOSED}"
        name = sanitize_path(own.path.rpartition("/")[2]) + ("/" if is_dir else "")
        role: StyleRole = "muted" if self.tree.is_ignored(own.path) else ""
        mark = self.marks.sign(own.path)
        lead: Line = ((f" {indent}", "muted"),)
        room = max(_LEAST_NAME, self.width - width_of(lead) - (width_of(mark) + 1 if mark else 0))
        return row((*lead, (fit_middle(name, room), role)), mark, self.width, gap=1)


class FileTree(VirtualLineView, can_focus=True, inherit_bindings=False):
    """A tree of files.  Give it every event of the session, so that changed files are marked."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.FILES)
    source: FileRows
    cursor: RowCursor
    empty_text = "No files yet."

    @dataclass
    class ListingWanted(Message):
        """Somebody should call `set_listing(path, …)`; `""` is the workspace itself."""

        path: str

    @dataclass
    class FileChosen(Message):
        """The user wants to see a file."""

        path: str

    @dataclass
    class StatesWanted(Message):
        """Files may be to git as they did not before; somebody should call `set_git`.

        `is_step_end`: a turn in which a tool ran ended.
        """

        is_step_end: bool = False

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(FileRows(), **options)
        self.cursor = RowCursor(self)
        self._tree, self._marks = self.source.tree, self.source.marks
        self._asked: set[str] = set()
        self._has_tool_run = False  # in this turn

    @property
    def current(self) -> DirEntry | None:
        """Return the file or folder under the cursor."""
        rows = self._tree.rows
        return rows[self.cursor.row] if self.cursor.row < len(rows) else None

    @property
    def current_path(self) -> str:
        """Return the path under the cursor, empty where there is none."""
        return self.current.path if self.current is not None else ""

    def copy_text(self) -> str:
        """Return the path under the cursor."""
        return self.current_path

    def on_mount(self) -> None:
        self.ask("")

    def apply(self, envelope: Envelope) -> None:
        """Take one event that the state has already: mark what changed, ask for other listings."""
        event = envelope.event
        is_change = False
        if isinstance(event, FilesRestored) or (isinstance(event, FilesChanged) and not event.is_tried):
            is_change = bool(event.files)
            for path in (change.path for change in event.changes if change.kind is not FileChangeKind.MODIFIED):
                self.ask(next((each for each in (*folders_of(path), "") if self._tree.is_listed(each)), ""))
            self._marks.take_agent(event.files)
            self.touch(0)
        is_step_end = isinstance(event, TurnEnded) and self._has_tool_run
        self._has_tool_run = isinstance(event, ToolCallFinished) or (self._has_tool_run and not is_step_end)
        if (is_change or is_step_end) and self.is_attached:
            self.post_message(self.StatesWanted(is_step_end))

    def show_changes(self, changed_files: ChangedFiles) -> None:
        """Mark the files of another session."""
        self._marks.agent = changed_files
        self._marks.take_agent()
        self.touch(0)

    def set_git(self, states: Mapping[str, GitState], *, has_git: bool = True) -> None:
        """Mark what git tells of files, and leave out what it ignores."""
        self._marks.take_git(states, has_git=has_git)
        ignored = {path for path, state in states.items() if state is GitState.IGNORED}
        self._keep_place(lambda: self._tree.set_ignored(ignored))

    def set_listing(self, path: str, entries: Sequence[DirEntry] | None) -> None:
        """Take what is in a folder, folders first, None where it is gone; cursor and first row stay where they are."""
        self._asked.discard(path)
        self._keep_place(lambda: self._tree.set_listing(path, entries))

    def action_select(self) -> None:
        """Open or close the folder, or ask for the file to be shown."""
        own = self.current
        if own is None:
            return
        if own.kind != "dir":
            self.post_message(self.FileChosen(own.path))
        elif self._tree.is_open(own.path):
            self._keep_place(lambda: self._tree.close(own.path))
        else:
            self._open(own.path)

    def action_folder(self, step: str) -> None:
        """Open the folder or go into an open one; close it or go to the one that the row is in."""
        own = self.current
        is_open = own is not None and self._tree.is_open(own.path)
        if own is None:
            return
        if step == "open" and own.kind == "dir":
            if is_open:
                self.cursor.move(1)
            else:
                self._open(own.path)
        elif step == "close":
            if is_open:
                self._keep_place(lambda: self._tree.close(own.path))
            elif self._tree.parent(self.cursor.row) >= 0:
                self.cursor.put(self._tree.parent(self.cursor.row))

    def toggle_hidden(self) -> bool:
        """Show what ignore rules leave out, or do not; return which."""
        self._keep_place(lambda: self._tree.show_hidden(not self._tree.shows_hidden))
        return self._tree.shows_hidden

    def ask(self, path: str) -> None:
        """Ask for a folder's listing, unless it is on its way."""
        if path not in self._asked and self.is_attached:
            self._asked.add(path)
            self.post_message(self.ListingWanted(path))

    def _open(self, path: str) -> None:
        self._keep_place(lambda: self._tree.open(path))
        self.ask(path)  # a listing from before is shown meanwhile

    def _keep_place(self, change: Callable[[], None]) -> None:
        """Change the rows; the cursor stays on its path, the first row that is seen stays at the top."""
        rows, path, top = self._tree.rows, self.current_path, self.scroll_offset.y
        first = rows[top].path if top and top < len(rows) else ""
        change()
        index = self._tree.index(path, self.cursor.row) if path else -1
        self.cursor.row = index if index >= 0 else self.cursor.row
        self.cursor.clamp()
        self.touch(0)
        moved = self._tree.index(first, top) if first else -1
        if moved >= 0 and moved != top:
            self.sync()
            self.jump(moved)
