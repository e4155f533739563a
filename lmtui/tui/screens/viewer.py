"""A file of the workspace: read, searched, mentioned in the prompt, opened in the user's editor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.widget import Widget

from lmtui.core.errors import LmtuiError
from lmtui.core.messages import sniff
from lmtui.core.prompt_text import mention_text
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Scope, command, of_scope
from lmtui.tui.editor import open_editor
from lmtui.tui.lines.file_view import FileText, FileView
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.lines.styled_text import Line, color_role, fit_path
from lmtui.tui.screens.beside import BesideChat, keys_of
from lmtui.tui.timing import LatestOnly
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import Columns

TIMEOUT_S = 15.0
MAX_COLUMNS, MAX_ROWS = 200, 100
HALF = "▀"
_DECODER = Path(__file__).parents[1] / "picture_decoder.py"


class PictureError(Exception):
    """A picture cannot be shown; the text says why."""


async def picture_lines(data: bytes, columns: int, rows: int) -> list[Line]:
    """Return a picture as lines, at most so many cells wide and high.

    Raises:
        PictureError: it is broken, too large, or nothing here decodes pictures.
    """
    size = (str(max(1, min(columns, MAX_COLUMNS))), str(max(1, min(rows, MAX_ROWS))))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(_DECODER), *size,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={},
    )  # fmt: skip
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found, reason = await process.communicate(data)
    except TimeoutError as error:
        raise PictureError("it takes too long to decode") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise PictureError(sanitize_line(reason.decode("utf-8", "replace").strip()[-200:]) or "its decoder was stopped")
    return _lines(found)


def _lines(found: bytes) -> list[Line]:
    head, _, pixels = found.partition(b"\n")
    columns, rows = (int(part) for part in head.split())
    if len(pixels) != columns * rows * 6:
        raise PictureError("its decoder sent something else")
    width = columns * 3
    lines: list[Line] = []
    for row in range(rows):
        upper = pixels[2 * row * width : (2 * row + 1) * width]
        lower = pixels[(2 * row + 1) * width : (2 * row + 2) * width]
        cells = [(upper[at : at + 3].hex(), lower[at : at + 3].hex()) for at in range(0, width, 3)]
        lines.append(tuple((HALF * len(list(run)), color_role(top, bottom)) for (top, bottom), run in groupby(cells)))
    return lines


FRAME_ROWS = 4
_IN_TREE = ("viewer.file", "viewer.read")


class Viewer(BesideChat):
    """Shows one file.  `mark` takes a mention for the prompt, where there is one.

    `step` moves in the files and returns the path of the next or the previous one, empty where there is none.  While it
    `follows_tree`, the arrow keys do so.
    """

    BINDINGS: ClassVar[list[BindingType]] = keys_of(Scope.VIEWER)

    SCOPE: ClassVar[Scope] = Scope.VIEWER
    tab = "File"

    def __init__(
        self,
        host: SessionHost,
        path: str,
        *,
        mark: Callable[[str], None] | None = None,
        panes: Columns | None = None,
        step: Callable[[int], str] = lambda _: "",
        follows_tree: bool = False,
    ) -> None:
        super().__init__(panes)
        self._host, self._path, self._mark = host, path, mark
        self._step_file, self._follows_tree = step, follows_tree
        self._title_bar = Bar(id="viewer-title")
        self._file = FileView(id="viewer-file")
        self._picture = PageView(lambda _: [], id="viewer-picture")
        self._picture.display = False
        self._ask = AskLine("viewer-ask")
        self._searches = LatestOnly[str](lambda work: self.run_worker(work, group="viewer-search"), self._search)
        self._note = self._lasting_note = ""
        self._size_bytes = 0

    def content(self) -> Iterable[Widget]:
        """Return title, text, and the line to type into."""
        return self._title_bar, self._file, self._picture, self._ask

    def on_mount(self) -> None:
        self._draw_title()
        self._file.focus()
        self._load()

    def placed(self) -> None:
        """Say what the keys do, in the files or in the text."""
        is_in_tree = self.check_action("side_step", (1, True))
        shown = [each for each in of_scope(Scope.VIEWER) if is_in_tree or each.id not in _IN_TREE]
        self.show_keys([*shown, replace(command("side.step"), hint="next file")] if self._panes is not None else shown)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let the arrow keys move in the files while these are on screen and the text was not gone to."""
        if action == "read_file" or (action == "side_step" and len(parameters) > 1):
            has_tree = self._panes is not None and self._panes.files_pane.has_class("-docked")
            return self._follows_tree and self.is_beside and has_tree
        return super().check_action(action, parameters)

    def action_read_file(self) -> None:
        """Let the arrow keys scroll the text."""
        self._follows_tree = False
        self.placed()

    def action_side_step(self, step: int, *_: object) -> None:
        """Show the next file, or the one before."""
        if path := self._step_file(step):
            self._path, self._lasting_note = path, ""
            self._file.display, self._picture.display = True, False
            self._file.focus()
            self._load()

    def action_viewer_search(self) -> None:
        """Ask what to look for."""
        self._ask.ask("search in this file", self._file, typed=self._searches.want, move=self.action_viewer_step)

    def action_viewer_line(self) -> None:
        """Ask which line to go to."""
        self._ask.ask(f"line, 1 to {self._file.source.line_count:,}", self._file, sent=self._go_to_line)

    def action_viewer_step(self, step: int) -> None:
        """Go to the next match, or the one before."""
        self._file.step_match(step)
        self._draw_title()

    def action_viewer_copy(self) -> None:
        """Copy the line."""
        number = self._file.current_line
        self.app.copy_to_clipboard(self._file.source.raw_line(number))
        self._say(f"line {number:,} copied")

    def action_viewer_mark(self) -> None:
        """Mention the selected lines, or those in view, in the prompt."""
        if self._mark is not None:
            first, last = self._file.lines_meant
            mention = f"{mention_text(self._path)}:{first}-{last}"
            self._mark(mention)
            self._say(f"{sanitize_line(mention)} is in the prompt")

    def _go_to_line(self, text: str) -> None:
        if text.strip().isdecimal():
            self._file.go_to_line(int(text.strip()[:12]))
        elif text.strip():
            self._say("a line is a number")

    async def _search(self, text: str) -> None:
        matches = await asyncio.to_thread(self._file.source.text_shown.find_all, text) if text.strip() else []
        if not self._searches.is_stale:
            self._file.show_matches(text if text.strip() else "", matches)
            self._draw_title()

    @work(group="viewer", exclusive=True)
    async def _load(self, *, keeps_place: bool = False) -> None:
        file = self._file
        try:
            found = await self._host.files.read(self._path)
        except LmtuiError as error:
            file.show(error.full_text())
            return
        if sniff(found.data) and await self._shows_picture(found.data):
            return
        text = await asyncio.to_thread(FileText, self._path, found.data)
        self._size_bytes = found.size_bytes
        is_cut = found.size_bytes > len(found.data)
        file.show(text, size_bytes=found.size_bytes, is_cut=is_cut, keeps_place=keeps_place)
        self._draw_title()

    async def _shows_picture(self, data: bytes) -> bool:
        """Draw a picture in cells, where the terminal has the colours for it; False where it cannot be, which is said."""
        size = self.app.size
        if self.app.console.color_system not in ("256", "truecolor"):
            return False
        try:
            lines = await picture_lines(data, self.columns - 1, size.height - FRAME_ROWS)
        except PictureError as error:
            self._lasting_note = f"not drawn: {error}"
            return False
        self._picture.show(lambda _: lines)
        self._file.display, self._picture.display = False, True
        self._picture.focus()
        self._say(f"{sniff(data).removeprefix('image/')} · {len(data):,} bytes")
        return True

    @work(group="editor")
    async def action_viewer_edit(self) -> None:
        """Open the file in the user's editor, at the line."""
        try:
            real = await self._host.files.real_path(self._path)
        except LmtuiError as error:
            self._say(error.full_text())
            return
        await open_editor(self.app, real, self._file.current_line, say=self._say)
        self._load(keeps_place=True)

    def _say(self, note: str) -> None:
        self._note = note
        self._draw_title()

    def _draw_title(self) -> None:
        file = self._file
        counts = f"{file.source.line_count:,} lines · {self._size_bytes:,} bytes" if self._size_bytes else ""
        found = file.source.matches.text
        right = [Part(found, "$accent" if found[:1].isdigit() else "$warning")] if found else []
        note = self._note or self._lasting_note
        right += [Part(sanitize_line(note), "$accent", 1)] if note else []
        room = max(8, self.columns - sum(part.content.cell_length + 2 for part in right) - 2)
        self._title_bar.show(
            [Part(fit_path(sanitize_path(self._path), room), "bold")], [*right, Part(counts, "$text-muted", 2)]
        )
        self._note = ""
