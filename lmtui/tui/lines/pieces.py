"""Cuts Markdown, as it streams in, into pieces that can be drawn once and for all.

Only whole lines decide where a piece ends, so that a text gives the same pieces however it was chopped up on its way.
A piece is a paragraph, a list item, a table, a quote, or some lines of a code fence.  Everything is made clean here.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field

from lmtui.core.clean import clean

LONGEST_LINE = 4096
_FENCE_LINES = 40
_TABLE_ROWS = 50

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_ORDERED_LATER = re.compile(r" {0,1}(?!1[.)])\d{1,9}[.)]")
_DELIMITER = re.compile(r" {0,3}\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*+$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a Markdown text: its kind, its clean lines, and whether a blank line stands before it.

    `fence` is the word after an opening fence; `head` repeats the beginning of a table that this piece continues.
    """

    kind: str
    lines: tuple[str, ...]
    has_gap: bool = True
    fence: str = ""
    head: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a text begins: at its very start, behind a piece of kind `follows`, or in the middle of one.

    In a code fence `marker` and `fence` tell which, in a table `head` holds the rows that set its columns.
    """

    marker: str = ""
    fence: str = ""
    head: tuple[str, ...] = ()
    follows: str = ""
    had_blank: bool = False


@dataclass(slots=True)
class PieceSplitter:
    """Takes lines and gives pieces.  Ask `ends_before` for each line; if so `take` the piece; then `add` the line."""

    opening: Opening = field(default_factory=Opening)
    kind: str = ""
    lines: list[str] = field(default_factory=list)
    blanks: int = 0
    inner: str = ""
    has_gap: bool = False
    is_closed: bool = False
    is_cut: bool = False

    def __post_init__(self) -> None:
        self._resume()

    def ends_before(self, line: str) -> bool:
        """Tell whether the piece that is open is complete when this line comes next."""
        if not self.lines:
            return False
        if self.is_closed:
            return True
        match self.kind:
            case "fence":
                return len(self.lines) >= _FENCE_LINES and not _closes(line, self.opening.marker)
            case "list" if self.inner:
                return False
            case "list":
                return bool(line.strip()) and self._ends_list(line)
            case "indented":
                return bool(line.strip()) and not line.startswith(("    ", "\t"))
            case "table" if len(self.lines) >= _TABLE_ROWS and not self.blanks:
                return True
        return bool(line.strip()) and (self.blanks > 0 or self._interrupts(line))

    def add(self, line: str) -> None:
        """Take one clean line."""
        is_blank = not line.strip()
        if self.kind == "table" and not self.lines and (is_blank or self._interrupts(line)):
            self.opening, self.kind = Opening(follows="table"), ""
        if self.kind == "fence":
            self._add_to_fence(line)
        elif is_blank and not self.inner:
            self.blanks += 1
        elif self.lines:
            self._continue(line)
        else:
            self._open(line)

    def take(self) -> Piece | None:
        """Return the open piece and be ready for the next; None where there is nothing in it."""
        piece = None
        if self.lines:
            piece = Piece(self.kind, tuple(self.lines), self.has_gap, self.opening.fence, self.opening.head)
        self.opening = self._next_opening()
        self.lines, self.blanks, self.inner, self.is_closed, self.is_cut = [], 0, "", False, False
        self._resume()
        return piece

    def fork(self) -> PieceSplitter:
        """Return a splitter that can go on from here without changing this one."""
        other = copy(self)
        other.lines = list(self.lines)
        return other

    def cut(self) -> None:
        """End the open piece here (its line is too long); what follows joins it without a blank line."""
        if self.kind != "fence":
            self.is_closed = self.is_cut = True

    def _resume(self) -> None:
        self.has_gap = False
        self.kind = "fence" if self.opening.marker else "table" if self.opening.head else ""

    def _next_opening(self) -> Opening:
        now = self.opening
        if self.is_cut:
            return Opening(follows="cut")
        if self.kind == "fence" and not self.is_closed:
            return now
        if self.kind == "table" and not self.blanks and len(self.lines) >= _TABLE_ROWS:
            return Opening(head=now.head or tuple(self.lines))
        return Opening(
            follows=self.kind if self.lines else now.follows, had_blank=self.blanks > 0 or (not self.lines and now.had_blank)
        )

    def _ends_list(self, line: str) -> bool:
        if _ITEM.match(line):
            return True
        if line.startswith(("  ", "\t")):
            return False
        return self.blanks > 0 or self._interrupts(line)

    def _interrupts(self, line: str) -> bool:
        if self.kind in ("heading", "rule"):
            return True
        if _FENCE.match(line) or _HEADING.match(line):
            return True
        if self.kind == "paragraph":
            if _ITEM.match(line) and not _ORDERED_LATER.match(line) and not _RULE.match(line):
                return True
            return line.startswith(">")
        return bool(_RULE.match(line)) and self.kind != "table"

    def _open(self, line: str) -> None:
        fence = _FENCE.match(line)
        kind = "table" if self.kind == "table" else "fence" if fence else _kind_of(line)
        follows = self.opening.follows
        had_blank = self.opening.had_blank or self.blanks > 0
        is_tight = follows == "cut" or (kind == "list" and follows in ("list", "paragraph"))
        self.has_gap = bool(follows) and (had_blank or not is_tight)
        self.kind, self.blanks = kind, 0
        if fence and kind == "fence":
            self.opening = Opening(fence[1], fence[2].strip() or "text")
        else:
            self.lines.append(line)

    def _continue(self, line: str) -> None:
        if self.kind == "list":
            self._track_inner_fence(line)
        elif self.kind == "paragraph" and len(self.lines) == 1 and "|" in self.lines[0] and _DELIMITER.match(line):
            self.kind = "table"
        self.lines += [""] * self.blanks
        self.blanks = 0
        self.lines.append(line)

    def _track_inner_fence(self, line: str) -> None:
        fence = _FENCE.match(line.strip())
        if self.inner:
            if _closes(line.strip(), self.inner):
                self.inner = ""
        elif fence:
            self.inner = fence[1]

    def _add_to_fence(self, line: str) -> None:
        if _closes(line, self.opening.marker):
            self.is_closed = True
            if not self.lines:
                self.lines.append("")
        else:
            self.lines.append(line)


def clean_lines(raw: str) -> list[str]:
    """Return one raw line (without its end) as the clean lines that it shows as."""
    return clean(raw.removesuffix("\r")).split("\n")


def _closes(line: str, marker: str) -> bool:
    text = line.strip()
    return len(text) >= len(marker) and not text.strip(marker[0]) and len(line) - len(line.lstrip(" ")) < 4


def _kind_of(line: str) -> str:
    if line.startswith(("    ", "\t")):
        return "indented"
    if _HEADING.match(line):
        return "heading"
    if _RULE.match(line):
        return "rule"
    if _ITEM.match(line):
        return "list"
    return "quote" if line.lstrip(" ").startswith(">") else "paragraph"
