"""Answers: Markdown that arrives bit by bit, kept in blocks of a few hundred words so that no one of them gets dear.

A finished piece is drawn once; only what is still open at the end is drawn again.  Where blocks and pieces end depends on
the text alone, so an answer that was streamed and one that was read from a log give the same lines.
"""

from __future__ import annotations

from typing import ClassVar

from lmtui.tui.lines.blocks import Block
from lmtui.tui.lines.markdown import LONGEST_LINE, Piece, PieceSplitter, clean_lines, piece_lines
from lmtui.tui.lines.styled_text import Line, Span, width_of

BLOCK_CHARS = 2048
CURSOR: Span = ("▌", "accent")


class AnswerBlock(Block):
    """A part of an answer: its finished pieces, and while it streams what is open behind them."""

    kind: ClassVar[str] = "answer"

    def __init__(self, stream: AnswerStream, first_char: int = 0) -> None:
        super().__init__()
        self._stream = stream
        self.first_char = first_char
        self._pieces: list[Piece] = []
        self._drawn: list[Line] = []
        self._drawn_pieces = 0
        self._drawn_width = 0
        self.size_chars = 0
        self.newlines = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would be shown."""
        return not self._pieces and not self._stream.open_pieces(self)

    def freeze(self, piece: Piece) -> None:
        """Take a finished piece."""
        self._pieces.append(piece)

    def estimate(self, width: int) -> int:
        """Guess from length and newlines."""
        return 1 + self.newlines + self.size_chars // max(1, width)

    def body(self, width: int) -> list[Line]:
        """Return the lines of the finished pieces (drawn once a width) and of the open ones."""
        open_lines = [line for piece in self._stream.open_pieces(self) for line in piece_lines(piece, width)]
        if width != self._drawn_width or self._drawn_pieces > len(self._pieces):
            self._drawn, self._drawn_pieces, self._drawn_width = [], 0, width
        for piece in self._pieces[self._drawn_pieces :]:
            self._drawn += piece_lines(piece, width)
        self._drawn_pieces = len(self._pieces)
        lines = [*self._drawn, *open_lines]
        if self._stream.is_finished:
            self._drawn, self._drawn_pieces = [], 0
        elif lines and self is self._stream.blocks[-1] and width_of(lines[-1]) < width:
            lines[-1] = (*lines[-1], CURSOR)
        return lines or [()]

    def copy_text(self) -> str:
        """Return the whole answer that the block belongs to."""
        return self._stream.text

    def search_text(self) -> str:
        """Return the text of this part alone."""
        return "\n".join(line for piece in (*self._pieces, *self._stream.open_pieces(self)) for line in piece.lines)


class AnswerStream:
    """Splits an answer as it arrives.  `blocks` grows; only the last of them still changes."""

    def __init__(self) -> None:
        self.is_finished = False
        self._splitter = PieceSplitter()
        self._partial = ""
        self._parts: list[str] = []
        self.blocks: list[AnswerBlock] = [AnswerBlock(self)]

    @property
    def text(self) -> str:
        """Return the text so far, as it came."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def is_blank(self) -> bool:
        """Tell whether nothing would be shown."""
        return len(self.blocks) == 1 and self.blocks[0].is_empty

    def feed(self, text: str) -> None:
        """Take some more text, cut anywhere."""
        self._parts.append(text)
        *whole, self._partial = (self._partial + text).split("\n")
        for raw in whole:
            self._line(self._cut_long(raw))
        self._partial = self._cut_long(self._partial)

    def finish(self) -> None:
        """Take the end of the text."""
        if self.is_finished:
            return
        if self._partial:
            self._line(self._partial)
            self._partial = ""
        self._take()
        self.is_finished = True
        last = self.blocks[-1]
        if len(self.blocks) > 1 and last.is_empty:
            self.blocks.pop()

    def open_pieces(self, block: AnswerBlock) -> list[Piece]:
        """Return what is not finished yet, if it is at the end of this block."""
        if self.is_finished or block is not self.blocks[-1]:
            return []
        splitter = self._splitter.fork()
        found: list[Piece | None] = []
        for line in clean_lines(self._partial) if self._partial else ():
            if splitter.ends_before(line):
                found.append(splitter.take())
            splitter.add(line)
        found.append(splitter.take())
        return [piece for piece in found if piece is not None]

    def _line(self, raw: str) -> None:
        for line in clean_lines(raw):
            if self._splitter.ends_before(line):
                self._take()
                if self.blocks[-1].size_chars >= BLOCK_CHARS:
                    last = self.blocks[-1]
                    self.blocks.append(AnswerBlock(self, last.first_char + last.size_chars))
            self._splitter.add(line)
        self.blocks[-1].size_chars += len(raw) + 1
        self.blocks[-1].newlines += 1

    def _take(self) -> None:
        piece = self._splitter.take()
        if piece is not None:
            self.blocks[-1].freeze(piece)

    def _cut_long(self, raw: str) -> str:
        while len(raw) > LONGEST_LINE:
            at = raw.rfind(". ", 1, LONGEST_LINE) + 2
            if at < 3:
                at = raw.rfind(" ", 1, LONGEST_LINE) + 1 or LONGEST_LINE
            self._line(raw[:at])
            self._splitter.cut()
            raw = raw[at:]
        return raw


class StoredAnswer(Block):
    """A short answer from a log: kept as text until it is seen."""

    kind: ClassVar[str] = "answer"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def estimate(self, width: int) -> int:
        """Guess from length and newlines."""
        return 1 + self._text.count("\n") + len(self._text) // max(1, width)

    def body(self, width: int) -> list[Line]:
        """Return the lines of the Markdown."""
        return split(self._text).blocks[0].body(width)

    def copy_text(self) -> str:
        """Return the answer."""
        return self._text


def split(text: str) -> AnswerStream:
    """Return a whole answer, split."""
    stream = AnswerStream()
    stream.feed(text)
    stream.finish()
    return stream


def answer_blocks(text: str) -> list[Block]:
    """Return the blocks of a whole answer; nothing where there is nothing to show."""
    if not text.strip():
        return []
    if len(text) <= BLOCK_CHARS:
        return [StoredAnswer(text)]
    return list(split(text).blocks)
