"""A file of the workspace: read, searched, mentioned in the prompt, opened in the user's editor."""

from __future__ import annotations

import asyncio
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import ClassVar, Unpack

from textual import work
from textual.binding import BindingType
from textual.widget import Widget

from lmtui.core.errors import LmtuiError
from lmtui.core.prompt_text import mention_text
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Scope, command, of_scope
from lmtui.tui.editor import open_editor
from lmtui.tui.lines.code import LONGEST_LINE, highlight, lexer_for_path, source_line
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import CONTINUED, Line, LineSource, Place, code_breaks, crop, fit_path, slice_line
from lmtui.tui.screens.beside import BesideChat, keys_of
from lmtui.tui.timing import WidgetOptions
from lmtui.tui.widgets.ask_line import AskLine
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import Columns


class Wrapping:
    """The rows of some raw lines at a width in cells; one row each at a width of 0.  Of many lines, make it in a thread."""

    def __init__(self, lines: Sequence[str], width: int = 0) -> None:
        self._width = max(2, width) if width else sys.maxsize
        self._lines = lines
        self._ends: Sequence[int] = list(accumulate(map(self._rows_of, lines))) if width else range(1, len(lines) + 1)

    @property
    def total(self) -> int:
        """Return how many rows there are."""
        return self._ends[-1] if self._ends else 0

    def locate(self, row: int) -> tuple[int, int, int]:
        """Return the line of a row, and the characters of it, from and up to, that the row has."""
        line = bisect_right(self._ends, row)
        breaks = [0, *self._breaks(self._lines[line]), sys.maxsize]
        at = row - self.row_of(line)
        return line, breaks[at], breaks[at + 1]

    def row_of(self, line: int, column: int = 0) -> int:
        """Return the row of a line that has a character of it, without one the first."""
        first = self._ends[line - 1] if line else 0
        return first + (bisect_right(self._breaks(self._lines[line]), column) if column else 0)

    def _rows_of(self, raw: str) -> int:
        is_short = len(raw) <= self._width and raw.isascii() and raw.isprintable()
        return 1 if is_short else len(self._breaks(raw)) + 1

    def _breaks(self, raw: str) -> Sequence[int]:
        if self._width == sys.maxsize:
            return ()
        if len(raw) <= LONGEST_LINE:
            return code_breaks(source_line(raw), self._width)
        step = self._width if raw.isascii() else self._width // 2
        return range(step, len(raw), step)


_CHUNK_LINES = 128
_KEPT_CHUNKS = 64
_AT_ONCE = 500
_SNIFFED_BYTES = 8192


class FileText:
    """The text of one file.  Nothing is kept per line but the text itself and the chunks seen last.

    Making one of ten megabytes takes a tenth of a second: do it in a thread.
    """

    def __init__(self, path: str, data: bytes | str) -> None:
        self.is_binary = isinstance(data, bytes) and b"\0" in data[:_SNIFFED_BYTES]
        text = "" if self.is_binary else data if isinstance(data, str) else data.decode("utf-8", "replace")
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self._lexer = lexer_for_path(path)
        self._chunks: dict[int, list[Line]] = {}

    def line(self, number: int) -> Line:
        """Return a line, clean and highlighted."""
        chunk, at = divmod(number, _CHUNK_LINES)
        found = self._chunks.get(chunk)
        if found is None:
            if len(self._chunks) >= _KEPT_CHUNKS:
                self._chunks.pop(next(iter(self._chunks)))
            raw = self.lines[chunk * _CHUNK_LINES : (chunk + 1) * _CHUNK_LINES]
            found = highlight([source_line(each[: LONGEST_LINE + 1]) for each in raw], self._lexer)
            self._chunks[chunk] = found
        return found[at]


class FileLines(LineSource):
    """A file's text as rows, each behind its number.  A place is a line and a character of it, both from 0."""

    def __init__(self) -> None:
        self.lead_cells = 6
        self._note = ""
        self.text_shown, self.wrapping = FileText("", ""), Wrapping(())

    def show(self, text: FileText | str, *, size_bytes: int, is_cut: bool) -> None:
        """Show a file (or a message in its place); `is_cut`: it is larger than the text."""
        self.text_shown = text if isinstance(text, FileText) else FileText("", text)
        self._note = ""
        if self.text_shown.is_binary:
            self._note = f"binary file, {size_bytes:,} bytes"
        elif not self.text_shown.lines:
            self._note = "empty file"
        elif is_cut:
            self._note = f"… cut here; the file has {size_bytes:,} bytes"
        self.lead_cells = max(4, len(str(self.line_count))) + 2
        self.wrapping = self.wrapped() if self.is_short else Wrapping(self.text_shown.lines)
        self.revision += 1

    @property
    def is_short(self) -> bool:
        """Tell whether to wrap the text takes no time."""
        return self.line_count <= _AT_ONCE

    def set_width(self, width: int) -> None:
        """Wrap again, where it takes no time."""
        super().set_width(width)
        if self.is_short:
            self.wrapping = self.wrapped()

    def wrapped(self) -> Wrapping:
        """Return the text wrapped at the width of now."""
        return Wrapping(self.text_shown.lines, self.width - self.lead_cells)

    @property
    def line_count(self) -> int:
        """Return how many lines the text has."""
        return len(self.text_shown.lines)

    def total(self) -> int:
        """Return how many rows there are, a remark at the end included."""
        return self.wrapping.total + bool(self._note)

    def line(self, number: int) -> Line:
        """Return a row with its number, or with the sign that it continues a line."""
        if number >= self.wrapping.total:
            return ((f" {self._note}", "muted"),)
        line, start, end = self.wrapping.locate(number)
        head = f"{CONTINUED if start else line + 1:>{self.lead_cells - 1}} "
        if len(self.text_shown.lines[line]) > LONGEST_LINE:
            end = min(end, start + self.width)
            return crop(((head, "muted"), (source_line(self.text_shown.lines[line][start:end]), "")), self.width)
        return crop(((head, "muted"), *slice_line(self.text_shown.line(line), start, end)), self.width)

    def continues(self, number: int) -> bool:
        """Tell whether a row is not the first of its line."""
        return number < self.wrapping.total and self.wrapping.locate(number)[1] > 0

    def place_at(self, line: int) -> Place:
        """Return the line of the file that a row belongs to, and its first character."""
        total = self.wrapping.total
        return self.wrapping.locate(max(0, min(line, total - 1)))[:2] if total else (0, 0)

    def line_of(self, place: Place) -> int:
        """Return the row of a character."""
        return self.wrapping.row_of(min(place[0], self.line_count - 1), place[1]) if self.line_count else 0

    def find(self, words: str) -> Iterator[Place | None]:
        """Yield where words are."""
        wanted = words.casefold()
        for number, raw in enumerate(self.text_shown.lines):
            text = raw if len(raw) > LONGEST_LINE else source_line(raw)
            folded = text.casefold()
            at = folded.find(wanted)
            while at >= 0:
                yield number, at
                at = folded.find(wanted, at + len(wanted))
            yield None

    def reveal(self, place: Place, words: str) -> Place:
        """Return the row of a match."""
        del words
        return self.place_at(self.line_of(place))


class FileView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows a file's lines.  `show` gives the text; it reads nothing itself."""

    empty_text = "Choose a file in the tree to read it here."
    source: FileLines

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(FileLines(), **options)
        self._line_gone_to = -1

    def show(self, text: FileText | str, *, size_bytes: int = 0, is_cut: bool = False, keeps_place: bool = False) -> None:
        """Show a file (or a message in its place); `is_cut`: it is larger than the text."""
        self.search.forget()
        self.source.show(text, size_bytes=size_bytes, is_cut=is_cut)
        if not keeps_place:
            self._line_gone_to, self.scroller.place = -1, (0, 0)
        self.take_width(self.content_width)

    def take_width(self, width: int) -> None:
        """Wrap again; a long text in a thread."""
        super().take_width(width)
        if not self.source.is_short and self.is_running:
            self.run_worker(self._wrap(), group="wrap", exclusive=True)

    async def _wrap(self) -> None:
        lines, wrapping = self.source.text_shown.lines, await asyncio.to_thread(self.source.wrapped)
        if lines is self.source.text_shown.lines:  # else another file is shown by now
            self.source.wrapping = wrapping
            self.redraw()

    @property
    def current_line(self) -> int:
        """Return the line meant, from 1: where the copy mode is, or what was gone to, while it is seen; else the first seen."""
        first, last = self.lines_in_view
        meant = self.source.place_at(self.copy_mode.lines[1])[0] if self.copy_mode.is_on else self._line_gone_to
        return meant + 1 if first <= meant + 1 <= last else first

    @property
    def lines_in_view(self) -> tuple[int, int]:
        """Return the first and the last line that is seen, from 1."""
        top = self.scroll_offset.y
        return self._numbers(top, top + max(0, self.size.height - 1))

    @property
    def lines_meant(self) -> tuple[int, int]:
        """Return the lines that are selected, by key or mouse, else those in view, from 1."""
        selection = self.text_selection
        if self.copy_mode.is_on:
            return self._numbers(*self.copy_mode.lines)
        if selection is not None:
            first = selection.start.y if selection.start is not None else 0
            return self._numbers(first, selection.end.y if selection.end is not None else self.source.total())
        return self.lines_in_view

    def _numbers(self, first: int, last: int) -> tuple[int, int]:
        return self.source.place_at(first)[0] + 1, self.source.place_at(last)[0] + 1

    def found(self, place: Place) -> None:
        """Take note of the line of a match."""
        self._line_gone_to = place[0]

    def go_to_line(self, number: int) -> None:
        """Put a line, counted from 1, in the middle of the pane."""
        self._line_gone_to = max(0, min(self.source.line_count, number) - 1)
        self.scroller.go(self.source.moved((self._line_gone_to, 0), -(self.size.height // 2)))


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
        self._ask = AskLine("viewer-ask")
        self._note = ""
        self._size_bytes = 0

    def content(self) -> Iterable[Widget]:
        """Return title, text, and the line to type into."""
        return self._title_bar, self._file, self._ask

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
            self._path = path
            self._file.focus()
            self._load()

    def action_viewer_search(self) -> None:
        """Ask what to look for."""
        search = self._file.search
        self._ask.ask("search in this file", self._file, typed=search.find, move=search.go)

    def action_viewer_line(self) -> None:
        """Ask which line to go to."""
        self._ask.ask(f"line, 1 to {self._file.source.line_count:,}", self._file, sent=self._go_to_line)

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

    @work(group="viewer", exclusive=True)
    async def _load(self, *, keeps_place: bool = False) -> None:
        file = self._file
        try:
            found = await self._host.files.read(self._path)
        except LmtuiError as error:
            file.show(error.full_text())
            return
        text = await asyncio.to_thread(FileText, self._path, found.data)
        self._size_bytes = found.size_bytes
        is_cut = found.size_bytes > len(found.data)
        file.show(text, size_bytes=found.size_bytes, is_cut=is_cut, keeps_place=keeps_place)
        self._draw_title()

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
        right = [Part(sanitize_line(self._note), "$accent", 1)] if self._note else []
        room = max(8, self.columns - sum(part.content.cell_length + 2 for part in right) - 2)
        self._title_bar.show(
            [Part(fit_path(sanitize_path(self._path), room), "bold")], [*right, Part(counts, "$text-muted", 2)]
        )
        self._note = ""
