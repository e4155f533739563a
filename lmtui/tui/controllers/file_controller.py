"""The files of the workspace on screen: lists, refreshes and filters the tree, opens files, marks them into the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from textual import on
from textual.widgets import Input

from lmtui.core.errors import LmtuiError, SandboxError
from lmtui.core.prompt_text import mention_text
from lmtui.core.sanitize import pluralize, sanitize_path
from lmtui.core.workspace import Files, FoldersChanged
from lmtui.tui.editor import open_editor
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.styled_text import Line, fit, fit_middle, restyle, width_of
from lmtui.tui.lines.styled_text import row as table_row
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.path_index import FuzzyPaths, positions
from lmtui.tui.screens.viewer import Viewer
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried


class FoundFile(NamedTuple):
    """A file of the workspace, found by a part of its path."""

    path: str


class FileFinder(ListDialog[FoundFile, str | None]):
    """Finds a file by a few typed characters.  The result is its path."""

    NAME, HEADING = "picker", "Find a file"
    FILTER, FILTERS_AT_ONCE = "Type a part of a path", True
    CHOOSING = "open"

    def __init__(self, words: str, sign: Callable[[str], Line]) -> None:
        super().__init__()
        self.noun = "file"
        self.box.filter.value, self._sign = words, sign
        self._index = FuzzyPaths(())

    def learn(self, index: FuzzyPaths) -> None:
        """Take the paths."""
        self._index = index
        self.narrow()

    @on(Input.Changed)
    def narrow(self) -> None:
        """Show the files that fit what is typed, the best one marked."""
        self.run_worker(self._search(self.box.typed), group="find", exclusive=True)

    async def _search(self, text: str) -> None:
        found, total = await asyncio.to_thread(self._index.search, text)
        if self.is_attached:
            self.show([FoundFile(path) for path in found])
            self.table.action_move("home")
            self.box.count(f"{total:,} of {len(self._index.paths):,}" if text else pluralize(total, "file"))

    def matching(self, rows: Sequence[FoundFile], typed: str) -> Sequence[FoundFile]:
        """Return all rows: they were found by what is typed."""
        del typed
        return rows

    def line(self, row: FoundFile, width: int) -> Line:
        """Return a path, its name first, what was typed marked in it, and git's sign."""
        mark, clean = self._sign(row.path), sanitize_path(row.path)
        folder, slash, name = clean.rpartition("/")
        shown: Line = ((name, ""), (f"  {folder}{slash}", "muted"))
        if clean == row.path:  # else characters are not where they were found
            for at in positions(self.box.typed, row.path):
                place = at - len(folder) - len(slash) if at >= len(folder) + len(slash) else at + len(name) + 2
                shown = restyle(shown, place, place + 1, "match")
        room = width - width_of(mark) - 2
        if width_of(shown) > room:
            head = fit(name, room)
            shown = ((head, ""), (f"  {fit_middle(f'{folder}{slash}', room - cell_len(head) - 2)}", "muted"))
        return table_row(shown, mark, width, gap=1)

    def act(self) -> None:
        """Choose the marked file."""
        if self.current is not None:
            _ = self.dismiss(self.current.path)


_GROUP = "files"


MAX_HEAD_CHARS = 300


def branch_of(folder: Path) -> str:
    """Return the branch of a folder's own repository, empty where it has none.  Reads a file."""
    head = folder / ".git" / "HEAD"
    try:
        if not head.is_file():
            return ""
        with head.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_HEAD_CHARS)
    except OSError:
        return ""
    return text.strip().removeprefix("ref: refs/heads/") if text.startswith("ref: refs/heads/") else text[:8].strip()


class FileController:
    """Answers the commands of the files and keeps the tree as the disk is."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self._wants_git = self._reads_git = False
        self._problem = self._last_path = ""
        self._end: Callable[[], None] = lambda: None

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "files.filter": lambda _: self._find(""),
            "files.hidden": lambda _: self._toggle_hidden(),
            "files.mark": lambda _: self._mark(),
            "files.edit": lambda _: self._edit(),
            "files.find": self._find,
        }

    # -- the tree as the disk is ----------------------------------------------------------------------------------------

    @property
    def _tree(self) -> FileTree:
        return self._workbench.panes.files

    @property
    def files(self) -> Files | None:
        """Return the workspace's files, once there is a host."""
        return self._workbench.sessions.host.files if self._workbench.sessions.host is not None else None

    def start(self) -> None:
        """Follow the files from now on: the host is there."""
        tree, files = self._tree, self.files
        if files is not None:
            self._end()
            self._end = files.changed(self._changed)
            tree.watch(self._workbench.app, "app_focus", self._focus_changed, init=False)
            self.load("")
            self.read_git()

    def load(self, path: str) -> None:
        """List a folder for the tree."""
        self.work(self._load(path))

    def states_wanted(self, *, is_step_end: bool) -> None:
        """Read git's states; at the end of a step list again what nobody tells of while folders are not watched."""
        if is_step_end and self._problem:
            for folder in self._tree.source.tree.open_folders:
                self.load(folder)
        self.read_git()

    def read_git(self) -> None:
        """Read git's states; once more at the end where they were asked for meanwhile."""
        self._wants_git = True
        if not self._reads_git:
            self._reads_git = True
            self.work(self._read_git())

    def work(self, work: Awaitable[None]) -> None:
        """Run a coroutine in a worker."""
        self._workbench.app.run_worker(work, group=_GROUP)

    def _changed(self, change: FoldersChanged) -> None:
        if change.problem and change.problem != self._problem:
            self._problem = change.problem
            self._workbench.say(change.problem, "warning")
        tree = self._tree
        for folder in tree.source.tree.open_folders:
            if folder in change.folders:
                self.load(folder)
        if change.folders or change.has_git_changed:
            self.read_git()

    def _focus_changed(self, has_focus: bool) -> None:
        if has_focus and self.files is not None:
            self.states_wanted(is_step_end=True)

    async def _load(self, path: str) -> None:
        tree, files = self._tree, self.files
        if files is None:
            return
        try:
            entries = await files.list(path)
        except LmtuiError as error:
            tree.set_listing(path, None)
            if not path:
                self._workbench.say(error.full_text(), "warning")
            return
        tree.set_listing(path, entries)
        files.watch(tree.source.tree.open_folders)

    async def _read_git(self) -> None:
        try:
            while self._wants_git and (files := self.files) is not None:
                self._wants_git = False
                active = self._workbench.active
                if active is not None and active.state.workspace:
                    self._workbench.branch = await asyncio.to_thread(branch_of, Path(active.state.workspace))
                self._tree.set_git(await files.git_status(), has_git=bool(self._workbench.branch))
        except SandboxError:
            pass  # no marks then; what is wrong with the sandbox is said where it is used
        finally:
            self._reads_git = False

    async def _find(self, words: str) -> None:
        """Ask for a file by a part of its path, and show it."""
        finder = FileFinder(words, self._tree.source.marks.sign)
        _ = self._workbench.app.push_screen(finder, lambda path: self.open_file(path) if path else None)
        self.work(tried(self._workbench, self._read_paths(finder), "warning"))

    async def _read_paths(self, finder: FileFinder) -> None:
        if self.files is not None:
            finder.learn(await asyncio.to_thread(FuzzyPaths, await self.files.paths()))
            if self.files.paths_note:
                self._workbench.say(self.files.paths_note, "warning")

    # -- acting on a file -----------------------------------------------------------------------------------------------

    def open_file(self, path: str) -> None:
        """Show a file of the workspace: the one way for everything that names a file."""
        if self._workbench.sessions.host is not None:
            self._last_path = path
            _ = self._workbench.app.push_screen(self._viewer(follows_tree=self._tree.has_focus))

    def tab(self) -> Callable[[], Viewer] | None:
        """Return what shows the last file again."""
        has_file = self._last_path and self._workbench.sessions.host is not None
        return self._viewer if has_file else None

    def _viewer(self, *, follows_tree: bool = False) -> Viewer:
        host = self._workbench.sessions.host
        assert host is not None
        return Viewer(
            host,
            self._last_path,
            mark=self.put_into_prompt,
            panes=self._workbench.panes,
            step=self._step,
            follows_tree=follows_tree,
        )

    def _step(self, step: int) -> str:
        """Go to the next file of the tree, or the one before, and return its path; empty at the end."""
        tree = self._tree
        rows, at = tree.source.tree.rows, tree.cursor.row + step
        while 0 <= at < len(rows) and rows[at].kind == "dir":
            at += step
        if not 0 <= at < len(rows):
            return ""
        tree.cursor.put(at)
        self._last_path = rows[at].path
        return self._last_path

    def put_into_prompt(self, mention: str) -> None:
        """Put a mention of a file where the cursor of the prompt is."""
        prompt = self._workbench.prompt
        before = prompt.get_text_range((0, 0), prompt.cursor_location)
        prompt.insert(f"{' ' if before and not before[-1].isspace() else ''}{mention} ")
        self._workbench.say(f"{mention.strip()} is in the prompt")

    def _toggle_hidden(self) -> None:
        is_shown = self._tree.toggle_hidden()
        self._workbench.say(f"what ignore rules leave out is {'shown' if is_shown else 'hidden'}")

    def _mark(self) -> None:
        if (marked := self._tree.current) is not None:
            self.put_into_prompt(mention_text(f"{marked.path}/" if marked.kind == "dir" else marked.path))

    async def _edit(self) -> None:
        marked = self._tree.current
        if marked is not None and marked.kind == "dir":
            self._workbench.say("a folder has no text to edit")
        elif marked is not None:
            self.work(tried(self._workbench, self._edit_file(marked.path), "warning"))

    async def _edit_file(self, path: str) -> None:
        if self.files is None:
            return
        real = await self.files.real_path(path)
        await open_editor(self._workbench.app, real, say=lambda text: self._workbench.say(text, "warning"))
        self.read_git()
