"""Pieces of Markdown to styled lines of a given width.  Foreign text only ever becomes text here, never markup."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len

from lmtui.core.clean import clean
from lmtui.tui.lines.code import highlight, lexer_by_name
from lmtui.tui.lines.links import link_role
from lmtui.tui.lines.pieces import Piece
from lmtui.tui.lines.tables import Cell, table_lines
from lmtui.tui.lines.text import Line, Span, fill, fold, indent, wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_CHARS = 24_000  # a longer paragraph or table is drawn as it was written: to parse one may take seconds
_BULLET = "• "
_QUOTE: Line = (("▌ ", "muted"),)
_TAB = "    "
_INLINE_ROLES = {"strong_open": "strong", "em_open": "em", "s_open": "strike", "link_open": "link"}


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415  (start-up: not needed for the first frame)

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline", "reference"])
    return parser


def warm_up() -> None:
    """Import what the first answer needs.  May run in a thread, after the first frame."""
    _parser().parse("`x`")
    highlight(["x = 1"], lexer_by_name("python"))


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
    """Return source code on its own ground, highlighted, every character kept."""
    shown = [line.expandtabs(4) for line in lines]
    found: list[Line] = []
    for line in highlight(shown, lexer_by_name((language.split() or [""])[0])):
        found += [fill(((" ", ""), *part), width, "block") for part in fold(line, width - 2)]
    return found


class _Document:
    """One walk over the tokens of a piece.  `head_lines` says how many lines of a table were drawn before."""

    def __init__(self, width: int, head_lines: int = 0) -> None:
        self._width = width
        self._head_lines = head_lines
        self._lines: list[Line] = []
        self._prefixes: list[tuple[Line, Line]] = []
        self._numbering: list[int] = []
        self._wants_gap = False

    def lines_of(self, source: str) -> list[Line]:
        """Return the lines of a Markdown text."""
        tokens = iter(_parser().parse(source))
        for token in tokens:
            match token.type:
                case "inline":
                    self._emit(inline_line(token))
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
            case "bullet_list_open":
                self._numbering.append(-1)
            case "ordered_list_open":
                self._numbering.append(0)
            case "bullet_list_close" | "ordered_list_close":
                self._numbering.pop()
                self._wants_gap = not self._numbering
            case "list_item_open":
                mark = _BULLET if self._numbering[-1] < 0 else f"{token.info}{token.markup} "
                self._prefixes.append((((mark, "muted"),), ((" " * len(mark), ""),)))
            case "blockquote_open":
                self._prefixes.append((_QUOTE, _QUOTE))
            case "list_item_close" | "blockquote_close":
                self._prefixes.pop()

    def _inner_width(self) -> int:
        return max(8, self._width - sum(cell_len(text) for _, rest in self._prefixes for text, _ in rest))

    def _emit(self, line: Line) -> None:
        width = self._inner_width()
        parts = [part for each in split_breaks(line) for part in wrap(each, width)]
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
    roles: list[str] = []
    target = label = ""
    for child in token.children or ():
        match child.type:
            case "text" | "code_inline":
                own = [*roles, "code"] if child.type == "code_inline" else roles
                text = clean(child.content).replace("\n", " ").replace("\t", _TAB)
                spans.append((text, " ".join(own)))
                label += text
            case "softbreak":
                spans.append((" ", ""))
            case "hardbreak":
                spans.append(("\n", ""))
            case "image":
                spans += [(f"[{clean(child.content)}]", "link"), (f" ({clean(str(child.attrGet('src') or ''))})", "muted")]
            case kind if kind in _INLINE_ROLES:
                roles.append(_INLINE_ROLES[kind])
                if kind == "link_open":
                    target, label = clean(str(child.attrGet("href") or "")), ""
                    roles[-1] = f"link {link_role(target)}".strip()
            case kind if kind.endswith("_close") and roles:
                roles.pop()
                if kind == "link_close" and target.removeprefix("mailto:") != label:
                    spans.append((f" ({target})", "muted"))
    return tuple(span for span in spans if span[0])


def split_breaks(line: Line) -> list[Line]:
    """Split a line at the newlines in it."""
    found: list[list[Span]] = [[]]
    for text, role in line:
        first, *others = text.split("\n")
        if first:
            found[-1].append((first, role))
        found += [[(other, role)] if other else [] for other in others]
    return [tuple(spans) for spans in found]


def _heading(token: Token) -> Line:
    return tuple((text, f"{role} heading".strip()) for text, role in inline_line(token))
