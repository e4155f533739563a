"""The lines of a difference, made on sight: a run of them is a stretch of a text that is there anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from lmtui.tui.lines.code import source_line

NO_END = "⟨no line end⟩"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: `sign` is space, `+` or `-`; numbers count from 1 and are 0 on the side where the line is not.

    `note` is what cannot be seen in the text: that the last line of a file has no end.
    """

    sign: str
    old: int
    new: int
    text: str
    note: str = ""


class TextLines(Sequence[DiffLine]):
    """Some lines of a text with one sign.  They are cleaned one by one when they are looked at.

    Args:
        texts: the whole text's lines, with or without their ends.
        start, stop: which of them, from 0.
        old, new: the numbers of the first one on either side, 0 on the side where they are not.
        cut: how many characters at the beginning of each are not text (the sign in a unified diff).
        note: said of the last one.
    """

    def __init__(
        self, sign: str, texts: Sequence[str], start: int, stop: int, *, old: int, new: int, cut: int = 0, note: str = ""
    ) -> None:
        self.sign, self.old, self.new, self.note = sign, old, new, note
        self._texts, self._start, self._stop, self._cut = texts, start, max(start, stop), cut

    def __len__(self) -> int:
        """Return how many there are."""
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> DiffLine: ...

    @overload
    def __getitem__(self, index: slice) -> list[DiffLine]: ...

    def __getitem__(self, index: int | slice) -> DiffLine | list[DiffLine]:
        """Return a line, or some."""
        if isinstance(index, slice):
            return [self._line(at) for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self._line(at)

    def raw(self) -> Iterator[str]:
        """Yield the texts as they are, without their ends."""
        for at in range(self._start, self._stop):
            yield self._texts[at][self._cut :].removesuffix("\n")

    def fits(self, width: int) -> bool:
        """Tell whether each surely takes one line of so many cells: plain characters, and few enough of them."""
        texts = self._texts[self._start : self._stop]
        if self.note or max(map(len, texts), default=0) > width:
            return False
        whole = "".join(texts)
        return whole.isascii() and whole.replace("\r\n", "").replace("\n", "").isprintable()

    def _line(self, at: int) -> DiffLine:
        text = source_line(self._texts[self._start + at][self._cut :].removesuffix("\n"))
        note = self.note if at == len(self) - 1 else ""
        return DiffLine(self.sign, self.old and self.old + at, self.new and self.new + at, text, note)


NONE = TextLines(" ", (), 0, 0, old=0, new=0)


@dataclass(frozen=True, slots=True)
class Run:
    """Lines that were, and what is there instead of them; of equal lines only `new` is given."""

    old: TextLines
    new: TextLines

    @property
    def is_equal(self) -> bool:
        """Tell whether nothing changed here."""
        return self.new.sign == " " and len(self.new) > 0

    def lines(self) -> Iterator[DiffLine]:
        """Yield the lines one below the other."""
        yield from self.old
        yield from self.new
