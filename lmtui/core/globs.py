"""Globs of permission rules for words: `*` is any text, `?` any character, a backslash takes the next one as itself."""

from __future__ import annotations

import re
from functools import lru_cache


def matches(pattern: str, subject: str) -> bool:
    """Match a glob against a whole subject in time linear in it, however many stars there are (a rule may be hostile)."""
    fixed = literal(pattern)
    if fixed is not None:
        return fixed == subject
    return _compiled(pattern).fullmatch(subject) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return an expression in which each star stops at the first place where the rest matches, without backtracking."""
    pieces = [""]
    for match in re.finditer(r"\\(.)|(\*)|(\?)|(.)", pattern, re.DOTALL):
        if match[2]:
            pieces.append("")
        else:
            pieces[-1] += "." if match[3] else re.escape(match[1] or match[4])
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    return re.compile(f"{pieces[0]}{''.join(f'(?>.*?{piece})' for piece in pieces[1:-1])}.*{pieces[-1]}", re.DOTALL)


def escape(text: str) -> str:
    """Return the glob that matches this text and nothing else."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


@lru_cache(maxsize=1024)
def literal(pattern: str) -> str | None:
    """Return the one text that a pattern without wildcards stands for, else None."""
    if re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)
