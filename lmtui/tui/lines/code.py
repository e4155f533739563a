"""Source code to styled lines by Pygments; a language that it does not know is plain text."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from lmtui.core.sanitize import sanitize_line, show_controls
from lmtui.tui.lines.styled_text import Line, StyleRole, split_lines

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LONGEST_LINE = 4000
_PLAIN_NAMES = frozenset({"", "text", "txt", "plain", "plaintext", "output", "console", "none"})
_ROLES: dict[_TokenType, StyleRole] = {
    Token.Keyword: "keyword",
    Token.Operator.Word: "keyword",
    Token.Literal.String: "string",
    Token.Literal.Number: "number",
    Token.Comment: "comment",
    Token.Name.Function: "function",
    Token.Name.Class: "type",
    Token.Name.Decorator: "function",
    Token.Name.Builtin: "type",
    Token.Name.Exception: "type",
    Token.Name.Tag: "keyword",
    Token.Name.Attribute: "type",
    Token.Generic.Inserted: "good",
    Token.Generic.Deleted: "bad",
    Token.Generic.Heading: "heading",
    Token.Generic.Subheading: "heading",
}


@lru_cache(maxsize=128)
def _lexer(find: str, name: str) -> Lexer | None:
    from pygments import lexers  # noqa: PLC0415  (start-up: not needed for the first frame)

    try:
        found: Lexer = getattr(lexers, find)(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return found


def lexer_by_name(language: str) -> Lexer | None:
    """Return the lexer of a language by the word after a code fence, None where there is none."""
    return None if language.lower() in _PLAIN_NAMES else _lexer("get_lexer_by_name", language.lower())


def lexer_for_path(path: str) -> Lexer | None:
    """Return the lexer for a file by its name, None where there is none."""
    return _lexer("get_lexer_for_filename", path)


def source_line(raw: str) -> str:
    """Return a raw line of a file (or a part of one) as it is shown: a control character is a sign, nothing is left out."""
    return sanitize_line(show_controls(raw.removesuffix("\r").expandtabs(4)))


def highlight(lines: list[str], lexer: Lexer | None) -> list[Line]:
    """Return clean source lines as styled lines, one for one.  Very long lines leave the whole text plain."""
    if lexer is None or max(map(len, lines), default=0) > LONGEST_LINE:
        return [((line, ""),) if line else () for line in lines]
    tokens = lexer.get_tokens("\n".join(lines))
    found = split_lines((text, _role_of(kind)) for kind, text in tokens)
    return [*found, *[()] * (len(lines) - len(found))][: len(lines)]


@lru_cache(maxsize=512)
def _role_of(kind: _TokenType) -> StyleRole:
    step: _TokenType | None = kind
    while step is not None:
        role = _ROLES.get(step)
        if role is not None:
            return role
        step = step.parent
    return ""
