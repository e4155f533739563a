"""One word of a command by bash's quoting rules: what it stands for, if that is fixed before the command runs."""

from __future__ import annotations

import re
from typing import NamedTuple

from lmtui.core import globs
from lmtui.core.shell.command import NotUnderstood

_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=^#~-]|[^\x00-\x7f]")
_IN_BRACKETS = re.compile(r"\[[!^]?[A-Za-z0-9_.-]+\]")
_HARMLESS_BRACES = re.compile(r"\{[A-Za-z0-9/_-]*\}")
_TILDE = re.compile(r"(?:\A|[:=])~")
_LITERAL_DOLLAR = re.compile(r"\$(?=\Z|[ |)/\]])")


class Word(NamedTuple):
    """What a word stands for: `text`, and where the shell would expand it to file names, the glob of them in `pattern`."""

    text: str
    pattern: str = ""


def literal_word(source: str) -> Word:
    """Read a word as it is written.

    Raises:
        NotUnderstood: it is not fixed before the command runs, or its meaning depends on the shell's state.
    """
    if source in ("!", "[", "]"):
        return Word(source)
    text, pattern, is_glob, unquoted = "", "", False, ""
    i = 0
    while i < len(source):
        char = source[i]
        piece, after, kind = _piece(source, i, is_last_unquoted=char not in "'\"\\")
        text += piece
        pattern += {"any": char, "one": "?"}.get(kind, globs.escape(piece))
        is_glob = is_glob or kind in ("any", "one")
        unquoted += piece if kind == "plain" else "\0" * len(piece)
        i = after
    if _TILDE.search(unquoted):
        raise NotUnderstood("it uses ~ for a folder")
    if source.startswith("#"):
        raise NotUnderstood("a word begins with #")
    return Word(text, pattern if is_glob else "")


def _piece(source: str, i: int, *, is_last_unquoted: bool) -> tuple[str, int, str]:
    """Return the next piece of a word, where it ends, and its kind: plain, quoted, any (`*`) or one (`?`, `[…]`)."""
    char = source[i]
    if is_last_unquoted:
        return _unquoted(source, i)
    if char == "\\":
        return _escaped(source, i)
    end = _closing(source, i)
    if char == "'":
        return source[i + 1 : end], end + 1, "quoted"
    return _double_quoted(source[i + 1 : end]), end + 1, "quoted"


def _unquoted(source: str, i: int) -> tuple[str, int, str]:
    char = source[i]
    if source.startswith("$?", i):
        return "0", i + 2, "quoted"
    if char in "*?":
        return char, i + 1, "any"
    if char == "[":
        match = _IN_BRACKETS.match(source, i)
        if match is None:
            raise NotUnderstood("it uses brackets that are not plain")
        return match[0], match.end(), "one"
    if char == "{":
        match = _HARMLESS_BRACES.match(source, i)
        if match is None:
            raise NotUnderstood("it uses braces")
        return match[0], match.end(), "quoted"
    if not _PLAIN.fullmatch(char):
        raise NotUnderstood(f"it uses {char} outside quotes")
    return char, i + 1, "plain"


def _escaped(source: str, i: int) -> tuple[str, int, str]:
    following = source[i + 1 : i + 2]
    if not following:
        raise NotUnderstood("it ends in a backslash")
    return ("" if following == "\n" else following), i + 2, "quoted"


def _closing(source: str, i: int) -> int:
    """Return where a quoted part that begins at `i` ends."""
    quote = source[i]
    j = i + 1
    while j < len(source) and source[j] != quote:
        j += 2 if quote == '"' and source[j] == "\\" else 1
    if j >= len(source):
        raise NotUnderstood("a quote is not closed")
    return j


def _double_quoted(inner: str) -> str:
    """Return what stands between double quotes.

    Raises:
        NotUnderstood: something in it is expanded.
    """
    out: list[str] = []
    i = 0
    while i < len(inner):
        char = inner[i]
        if char == "\\" and inner[i + 1 : i + 2] in ('"', "\\", "$", "`", "\n"):
            out.append("" if inner[i + 1] == "\n" else inner[i + 1])
            i += 2
        elif inner.startswith("$?", i):
            out.append("0")
            i += 2
        elif char == "`" or (char == "$" and _LITERAL_DOLLAR.match(inner, i) is None):
            raise NotUnderstood("it uses an expansion")
        else:
            out.append(char)
            i += 1
    return "".join(out)
