"""A file's bytes as lines to look at: decoded leniently, cleaned line by line on sight, highlighted by the chunk."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len

from lmtui.tui.lines.code import LONGEST_LINE, highlight, lexer_for_path, source_line
from lmtui.tui.lines.text import Line

MAX_MATCHES = 100_000
_CHUNK_LINES = 128
_KEPT_CHUNKS = 64
_SNIFFED_BYTES = 8192


class Match(NamedTuple):
    """Where something was found: a line and a character of it, both from 0."""

    line: int
    column: int


class FileText:
    """The text of one file.  Nothing is kept per line but the text itself and the chunks seen last.

    Making one of ten megabytes takes a tenth of a second: do it in a thread.
    """

    def __init__(self, path: str, data: bytes | str) -> None:
        self.is_binary = isinstance(data, bytes) and b"\0" in data[:_SNIFFED_BYTES]
        text = "" if self.is_binary else data if isinstance(data, str) else data.decode("utf-8", "replace")
        self.lines = text.removesuffix("\n").split("\n") if text else []
        self.longest = max(map(_about_cells, self.lines), default=0)
        self._lexer = lexer_for_path(path)
        self._chunks: dict[int, list[Line]] = {}

    def is_long(self, number: int) -> bool:
        """Tell whether a line is too long to be treated as a whole."""
        return len(self.lines[number]) > LONGEST_LINE

    def part(self, number: int, start: int, end: int) -> str:
        """Return a part of a line, clean, without looking at the rest of it."""
        return source_line(self.lines[number][start:end])

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

    def shown_column(self, number: int, column: int) -> int:
        """Return where a character of a raw line stands in what is shown of it."""
        return column if self.is_long(number) else len(source_line(self.lines[number][:column]))

    def find_all(self, words: str) -> list[Match]:
        """Return where a text stands, letter case aside, at most `MAX_MATCHES` places; fit for a thread."""
        wanted = words.casefold()
        found: list[Match] = []
        for number, line in enumerate(self.lines if wanted else ()):
            folded = line.casefold()
            at = folded.find(wanted)
            while at >= 0 and len(found) < MAX_MATCHES:
                found.append(Match(number, at))
                at = folded.find(wanted, at + len(wanted))
        return found


def _about_cells(raw: str) -> int:
    """Return how wide a raw line is at most, as it is shown; hidden characters, which have long names, aside."""
    return (len(raw) if raw.isascii() else max(len(raw), cell_len(raw))) + 3 * raw.count("\t")
