"""The files of the workspace on screen: lists, refreshes and filters the tree, opens files, marks them into the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from lmtui.core.errors import LmtuiError, SandboxError
from lmtui.core.prompt_text import mention_text
from lmtui.core.workspace import Files, FoldersChanged
from lmtui.tui.editor import open_editor
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.path_index import FuzzyPaths
from lmtui.tui.screens.viewer import Viewer
from lmtui.tui.timing import LatestOnly
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import Part
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried


class FileFilter:
    """The filter of the tree."""

    def __init__(self, workbench: WorkbenchApi, controller: FileController) -> None:
        self._workbench, self._controller = workbench, controller
        self._line = AskLine("files-filter")
        self._index: FuzzyPaths | None = None
        self._words = ""
        self._searches = LatestOnly[str](controller.work, self._search)

    def forget_paths(self) -> None:
        """Read the files again when they are asked for next; what is being searched stays as it is."""
        if not self._line.is_open:
            self._index = None

    async def open(self) -> None:
        """Show the line."""
        tree = self._workbench.panes.files
        if self._line.parent is None:
            await self._workbench.panes.query_one("#files-pane").mount(self._line, before=tree)
        if self._workbench.pane != "files" and not tree.is_on_screen:
            self._workbench.go_to("files")
        self._float(is_over=True)
        self._line.ask(
            "find a file",
            tree,
            text=self._words,
            stays=True,
            sent=lambda _: tree.action_select(),
            typed=self.typed,
            move=tree.cursor.move,
        )
        if self._index is None:
            self._controller.work(tried(self._workbench, self._read_paths(), "warning"))

    async def find(self, words: str) -> None:
        """Show the line with words in it."""
        self._words = words
        await self.open()
        self.typed(words)

    def typed(self, text: str) -> None:
        """Narrow the files down to what was typed; once the line is closed, show the tree at the file that was marked last."""
        self._words = text
        if not self._line.is_open:
            self._float(is_over=False)
            self._workbench.panes.files.show_found("", None)
            self._workbench.draw()
        elif self._index is not None:
            self._searches.want(text)

    def _float(self, *, is_over: bool) -> None:
        self._workbench.panes.is_finding = is_over
        self._workbench.panes.place_columns()

    async def _read_paths(self) -> None:
        files = self._controller.files
        if files is None:
            return
        self._index = await asyncio.to_thread(FuzzyPaths, await files.paths())
        if files.paths_note:
            self._workbench.say(files.paths_note, "warning")
        if self._line.is_open:
            self.typed(self._line.value)

    async def _search(self, text: str) -> None:
        index, line = self._index, self._line
        if index is None or not line.is_open:
            return
        if not text.strip():
            self._workbench.panes.files.show_found("", None)
            self._draw_count(None, len(index.paths))
            return
        found, total = await asyncio.to_thread(index.search, text)
        if not self._searches.is_stale and line.is_open:
            self._workbench.panes.files.show_found(text, found)
            self._draw_count(total, len(index.paths))

    def _draw_count(self, found: int | None, total: int) -> None:
        text = f"{total:,} files" if found is None else f"{found:,} of {total:,}"
        self._workbench.panes.show_files_note(Part(text, "$text-muted", 1))


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
        self._filter = FileFilter(workbench, self)
        self._git = LatestOnly[None](self.work, self._read_git)
        self._problem = self._last_path = ""
        self._end: Callable[[], None] = lambda: None

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "files.filter": lambda _: self._filter.open(),
            "files.hidden": lambda _: self._toggle_hidden(),
            "files.mark": lambda _: self._mark(),
            "files.edit": lambda _: self._edit(),
            "files.find": self._filter.find,
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
        self._git.want(None)

    def work(self, work: Awaitable[None]) -> None:
        """Run a coroutine in a worker."""
        self._workbench.app.run_worker(work, group=_GROUP)

    def _changed(self, change: FoldersChanged) -> None:
        if change.problem and change.problem != self._problem:
            self._problem = change.problem
            self._workbench.say(change.problem, "warning")
        self._filter.forget_paths()
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

    async def _read_git(self, _: None) -> None:
        tree, files = self._tree, self.files
        if files is None:
            return
        active = self._workbench.active
        if active is not None and active.state.workspace:
            self._workbench.branch = await asyncio.to_thread(branch_of, Path(active.state.workspace))
        try:
            tree.set_git(await files.git_status())
        except SandboxError:
            return  # no marks then; what is wrong with the sandbox is said where it is used

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
        rows, at = tree.source.rows, tree.cursor.row + step
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
        if marked is not None and marked.kind != "dir":
            self.work(tried(self._workbench, self._edit_file(marked.path), "warning"))

    async def _edit_file(self, path: str) -> None:
        if self.files is None:
            return
        real = await self.files.real_path(path)
        await open_editor(self._workbench.app, real, say=lambda text: self._workbench.say(text, "warning"))
        self.read_git()
