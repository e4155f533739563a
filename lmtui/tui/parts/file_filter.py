"""Finding a file by a few characters: a line above the tree, and the files that fit in place of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from lmtui.core.errors import LmtuiError
from lmtui.core.workspace_files import Files
from lmtui.tui.fuzzy import FuzzyPaths
from lmtui.tui.latest import Latest
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.stage import Stage
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.fit import Part


class OnFiles:
    """What works on the workspace's files and their tree, once these are there."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @property
    def _tree(self) -> FileTree | None:
        return self._stage.panes.files if self._stage.panes is not None else None

    @property
    def _files(self) -> Files | None:
        return self._stage.desk.host.files if self._stage.desk.host is not None else None


class FileFilter(OnFiles):
    """The filter of the tree; `work` runs a coroutine in a worker."""

    def __init__(self, stage: Stage, work: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        super().__init__(stage)
        self._work = work
        self._line = AskLine("files-filter")
        self._index: FuzzyPaths | None = None
        self._words = ""
        self._searches = Latest[str](work, self._search)

    def forget_paths(self) -> None:
        """Read the files again when they are asked for next; what is being searched stays as it is."""
        if not self._line.is_open:
            self._index = None

    async def open(self) -> None:
        """Show the line."""
        tree = self._tree
        if tree is None or self._stage.panes is None:
            return
        if self._line.parent is None:
            await self._stage.panes.query_one("#files-pane").mount(self._line, before=tree)
        if self._stage.pane != "files" and not tree.is_on_screen:
            self._stage.go_to("files")
        self._line.ask(self, "find a file", self._words, move=tree.move_cursor)
        if self._index is None:
            self._work(self._read_paths())

    async def find(self, words: str) -> None:
        """Show the line with words in it."""
        self._words = words
        await self.open()
        self.typed(words)

    def typed(self, text: str) -> None:
        """Narrow the files down to what was typed."""
        self._words = text
        if self._index is not None:
            self._searches.want(text)

    def done(self, _: str) -> None:
        """Open the file that is marked."""
        if self._tree is not None:
            self._tree.choose()

    def given_up(self) -> None:
        """Show the tree again, at the file that was marked last."""
        self._words = ""
        if self._tree is not None:
            self._tree.show_found("", None)
            self._tree.focus()
        self._stage.draw()

    async def _read_paths(self) -> None:
        files = self._files
        if files is None:
            return
        try:
            paths = await files.paths()
        except LmtuiError as error:
            self._stage.say(error.full_text(), "warning")
            return
        self._index = await asyncio.to_thread(FuzzyPaths, paths)
        if files.paths_note:
            self._stage.say(files.paths_note, "warning")
        if self._line.is_open:
            self.typed(self._line.value)

    async def _search(self, text: str) -> None:
        index, line = self._index, self._line
        if index is None or not line.is_open:
            return
        if not text.strip():
            if self._tree is not None:
                self._tree.show_found("", None)
            self._draw_count(None, len(index.paths))
            return
        found, total = await asyncio.to_thread(index.search, text)
        if self._tree is not None and not self._searches.is_stale and self._has_line():
            self._tree.show_found(text, found)
            self._draw_count(total, len(index.paths))

    def _has_line(self) -> bool:
        return self._line.is_open

    def _draw_count(self, found: int | None, total: int) -> None:
        if self._stage.panes is not None:
            text = f"{total:,} files" if found is None else f"{found:,} of {total:,}"
            self._stage.panes.show_files_note(Part(text, "$text-muted", 1))
