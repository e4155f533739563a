"""Globs of permission rules: matched against whole texts, and against each other, in time that no pattern can blow up."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Token(NamedTuple):
    """A piece of a glob: `char` itself, or with `char` empty any character; again and again if `is_star`."""

    char: str = ""
    is_star: bool = False


def matches(pattern: str, subject: str) -> bool:
    """Match a glob against a whole subject in time linear in it, however many stars there are (a rule may be hostile)."""
    fixed = literal(pattern)
    if fixed is not None:
        return fixed == subject
    return _compiled(pattern).fullmatch(subject) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return an expression in which each star takes the first place where what follows fits, and never another one."""
    pieces = [""]
    for token in tokens(pattern):
        if token.is_star:
            pieces.append("")
        else:
            pieces[-1] += re.escape(token.char) or "."
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


def can_meet(one: str, other: str) -> bool:
    """Tell whether some text (without a `/`) matches both globs."""
    left, right = tokens(one), tokens(other)
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        if i == len(left) and j == len(right):
            return True
        todo += _meeting_steps(left, right, i, j)
    return False


def _meeting_steps(left: tuple[Token, ...], right: tuple[Token, ...], i: int, j: int) -> list[tuple[int, int]]:
    """Return where two globs can go together from their places `i` and `j`."""
    a = left[i] if i < len(left) else None
    b = right[j] if j < len(right) else None
    steps = [(i + 1, j)] if a is not None and a.is_star else []
    steps += [(i, j + 1)] if b is not None and b.is_star else []
    if a is not None and b is not None and (a.char == b.char or not a.char or not b.char):
        steps.append((i if a.is_star else i + 1, j if b.is_star else j + 1))
    return steps


@lru_cache(maxsize=1024)
def tokens(pattern: str) -> tuple[Token, ...]:
    """Read a glob: `*` is any text, `?` any character, and a backslash takes the next character as itself."""
    out: list[Token] = []
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\" and i + 1 < len(pattern):
            i += 1
            out.append(Token(pattern[i]))
        elif char == "*":
            out.append(Token(is_star=True))
        else:
            out.append(Token("" if char == "?" else char))
        i += 1
    return tuple(out)
