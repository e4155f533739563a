"""Pieces of Markdown to styled lines of a given width.  Foreign text only ever becomes text here, never markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len

from lmtui.core.sanitize import sanitize
from lmtui.tui.lines.code import highlight, lexer_by_name
from lmtui.tui.lines.styled_text import (
    Line,
    Span,
    StyleRole,
    crop,
    fill,
    indent,
    join_roles,
    link_role,
    plain,
    slice_line,
    split_lines,
    strip_end,
    width_of,
    wrap,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_TABLE_RULE = " │ "
_NARROWEST_COLUMN = 4


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text and how it is aligned (left, right, center, or nothing)."""

    line: Line
    align: str = ""


def table_lines(rows: list[list[Cell]], width: int, skipped_rows: int = 0) -> list[Line]:
    """Return the lines of a table; the first row is its head.

    `skipped_rows` are not drawn again and alone set the widths, so that a table may be drawn in parts.
    """
    if not rows:
        return []
    widths = column_widths(rows[:skipped_rows] or rows, width)
    found: list[Line] = []
    for number, cells in enumerate(rows[skipped_rows:], skipped_rows):
        found += [crop(line, width) for line in _row_lines(cells, widths, is_head=number == 0)]
        if number == 0:
            found.append(crop((("─┼─".join("─" * size for size in widths), "muted"),), width))
    return found


def column_widths(rows: list[list[Cell]], width: int) -> list[int]:
    """Return the widths of the columns: what they need, the widest narrowed until all fit."""
    count = max(len(cells) for cells in rows)
    widths = [max((width_of(cells[at].line) for cells in rows if at < len(cells)), default=1) for at in range(count)]
    room = width - len(_TABLE_RULE) * (count - 1)
    while sum(widths) > room and max(widths) > _NARROWEST_COLUMN:
        widest = max(range(count), key=widths.__getitem__)
        others = sorted(set(widths))
        step = widths[widest] - (others[-2] if len(others) > 1 else _NARROWEST_COLUMN)
        widths[widest] -= max(1, min(step, sum(widths) - room))
    return [max(1, size) for size in widths]


def _row_lines(cells: list[Cell], widths: list[int], *, is_head: bool) -> list[Line]:
    wrapped = [wrap(cell.line, size) for cell, size in zip(cells, widths, strict=False)]
    found: list[Line] = []
    for depth in range(max(map(len, wrapped), default=0)):
        spans: list[Span] = []
        for at, size in enumerate(widths):
            part = wrapped[at][depth] if at < len(wrapped) and depth < len(wrapped[at]) else ()
            if at:
                spans.append((_TABLE_RULE, "muted"))
            spans += _aligned(part, size, cells[at].align if at < len(cells) else "", is_head=is_head)
        found.append(strip_end(tuple(spans)))
    return found


def _aligned(part: Line, size: int, align: str, *, is_head: bool) -> list[Span]:
    rest = max(0, size - width_of(part))
    before = rest if align == "right" else rest // 2 if align == "center" else 0
    body = [(text, join_roles(role, "strong") if is_head else role) for text, role in part]
    return [span for span in ((" " * before, ""), *body, (" " * (rest - before), "")) if span[0]]


LONGEST_LINE = 4096
_FENCE_LINES = 40
_TABLE_ROWS = 50

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
CODE_BLOCK = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_ORDERED_LATER = re.compile(r" {0,1}(?!1[.)])\d{1,9}[.)]")
_DELIMITER = re.compile(r" {0,3}\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*+$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a Markdown text: its kind, its clean lines, and whether a blank line is before it.

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

    def ends_before(self, line: str) -> bool:
        """Tell whether the piece that is open is complete when this line comes next."""
        if not self.lines:
            return False
        if self.is_closed:
            return True
        match self.kind:
            case "fence":
                return len(self.lines) >= _FENCE_LINES and not closes_fence(line, self.opening.marker)
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
        self.has_gap = False
        self.kind = "fence" if self.opening.marker else "table" if self.opening.head else ""
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
            if closes_fence(line.strip(), self.inner):
                self.inner = ""
        elif fence:
            self.inner = fence[1]

    def _add_to_fence(self, line: str) -> None:
        if closes_fence(line, self.opening.marker):
            self.is_closed = True
            if not self.lines:
                self.lines.append("")
        else:
            self.lines.append(line)


def clean_lines(raw: str) -> list[str]:
    """Return one raw line (without its end) as the clean lines that it shows as."""
    return sanitize(raw.removesuffix("\r")).split("\n")


def closes_fence(line: str, marker: str) -> bool:
    """Tell whether a line ends the fence that began with a marker."""
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


MOST_CHARS = 24_000  # a longer paragraph or table is drawn as it was written: to parse one may take seconds
_BULLET = "• "
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ "}
_QUOTE: Line = (("▌ ", "muted"),)
_TAB = "    "
_INLINE_ROLES: dict[str, StyleRole] = {"strong_open": "strong", "em_open": "em", "s_open": "strike", "link_open": "link"}


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  (start-up: not needed for the first frame)

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline", "reference"])
    return parser


def piece_lines(piece: Piece, width: int) -> list[Line]:
    """Return the lines of one piece, with the blank line before it."""
    gap: list[Line] = [()] if piece.has_gap else []
    if piece.kind == "fence":
        return gap + code_lines(list(piece.lines), piece.fence, width)
    text = "\n".join((*piece.head, *piece.lines))
    if len(text) > MOST_CHARS:
        return gap + [part for line in text.split("\n") for part in wrap(((line.expandtabs(4), ""),), width)]
    return gap + _Document(width, len(piece.head)).lines_of(text)


def code_lines(lines: list[str], language: str, width: int) -> list[Line]:
    """Return source code on its own ground, highlighted; a long line continues behind a sign."""
    shown = [line.expandtabs(4).rstrip() for line in lines]  # blanks at an end are not drawn, and would not fit
    found: list[Line] = []
    for line in highlight(shown, lexer_by_name((language.split() or [""])[0])):
        first, *more = wrap(line, width - 4)
        found.append(fill(((" ", ""), *first), width, "block"))
        found += [fill((("↪ ", "muted"), *part), width, "block") for part in more]
    return found


class _Document:
    """One walk over the tokens of a piece.  `head_lines` says how many lines of a table were drawn before."""

    def __init__(self, width: int, head_lines: int = 0) -> None:
        self._width = width
        self._head_lines = head_lines
        self._lines: list[Line] = []
        self._prefixes: list[tuple[Line, Line]] = []
        self._list_depth = 0
        self._wants_gap = False

    def lines_of(self, source: str) -> list[Line]:
        """Return the lines of a Markdown text."""
        tokens = iter(_parser().parse(source))
        for token in tokens:
            match token.type:
                case "inline":
                    self._emit(self._boxed(inline_line(token)))
                case "heading_open":
                    self._emit(_heading(next(tokens)))
                case "fence" | "code_block":
                    self._code(token)
                case "hr":
                    self._emit((("─" * min(self._inner_width(), 24), "muted"),))
                case "table_open":
                    self._table(tokens)
                case _:
                    self._structure(token)
        return self._lines

    def _structure(self, token: Token) -> None:
        match token.type:
            case "paragraph_close" | "heading_close":
                self._wants_gap = not token.hidden
            case "bullet_list_open" | "ordered_list_open":
                self._list_depth += 1
            case "bullet_list_close" | "ordered_list_close":
                self._list_depth -= 1
                self._wants_gap = not self._list_depth
            case "list_item_open":
                mark = f"{token.info}{token.markup} " if token.info else _BULLET
                self._prefixes.append((((mark, "muted"),), ((" " * len(mark), ""),)))
            case "blockquote_open":
                self._prefixes.append((_QUOTE, _QUOTE))
            case "list_item_close" | "blockquote_close":
                self._prefixes.pop()

    def _boxed(self, line: Line) -> Line:
        """Turn the bullet of an item that begins with `[ ]` or `[x]` into a box."""
        box = _BOXES.get(plain(line)[:4].lower())
        if box is None or not self._prefixes or plain(self._prefixes[-1][0]) != _BULLET:
            return line
        self._prefixes[-1] = (((box, "accent" if box[0] == "☑" else "muted"),), self._prefixes[-1][1])
        return slice_line(line, 4, len(plain(line)))

    def _inner_width(self) -> int:
        return max(8, self._width - sum(cell_len(text) for _, rest in self._prefixes for text, _ in rest))

    def _emit(self, line: Line) -> None:
        parts = [part for each in split_lines(line) for part in wrap(each, self._inner_width())]
        self._put(parts)

    def _put(self, lines: list[Line]) -> None:
        rest = tuple(span for _, other in self._prefixes for span in other)
        if self._wants_gap and self._lines:
            self._lines.append(rest if any(text.strip() for text, _ in rest) else ())
        self._wants_gap = False
        first = tuple(span for lead, _ in self._prefixes for span in lead)
        self._lines += indent(lines, first, rest)
        self._prefixes = [(other, other) for _, other in self._prefixes]

    def _code(self, token: Token) -> None:
        lines = token.content.removesuffix("\n").split("\n")
        self._put(code_lines(lines, token.info.strip(), self._inner_width()))
        self._wants_gap = True

    def _table(self, tokens: Iterator[Token]) -> None:
        rows: list[list[Cell]] = []
        for token in tokens:
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                align = str(token.attrGet("style") or "").removeprefix("text-align:")
                rows[-1].append(Cell(inline_line(next(tokens)), align))
        # Of the lines before, the delimiter is the one that is no row.
        self._put(table_lines(rows, self._inner_width(), max(0, self._head_lines - 1)))
        self._wants_gap = True


def inline_line(token: Token) -> Line:
    """Return an inline token as one line (hard breaks are newlines in it), links with their target behind them."""
    spans: list[Span] = []
    roles: list[StyleRole] = []
    target = label = ""
    for child in token.children or ():
        match child.type:
            case "text" | "code_inline":
                own: list[StyleRole] = [*roles, "code"] if child.type == "code_inline" else roles
                text = sanitize(child.content).replace("\n", " ").replace("\t", _TAB)
                spans.append((text, join_roles(*own)))
                label += text
            case "softbreak":
                spans.append((" ", ""))
            case "hardbreak":
                spans.append(("\n", ""))
            case "image":
                spans += [
                    (f"[{sanitize(child.content)}]", "link"),
                    (f" ({sanitize(str(child.attrGet('src') or ''))})", "muted"),
                ]
            case kind if kind in _INLINE_ROLES:
                roles.append(_INLINE_ROLES[kind])
                if kind == "link_open":
                    target, label = sanitize(str(child.attrGet("href") or "")), ""
                    roles[-1] = join_roles("link", link_role(target))
            case kind if kind.endswith("_close") and roles:
                roles.pop()
                if kind == "link_close" and target.removeprefix("mailto:") != label:
                    spans.append((f" ({target})", "muted"))
    return tuple(span for span in spans if span[0])


def _heading(token: Token) -> Line:
    return tuple((text, join_roles(role, "heading")) for text, role in inline_line(token))
