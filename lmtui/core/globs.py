"""Globs of permission rules: matched against whole texts, and against each other, in time that no pattern can blow up."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Token(NamedTuple):
    """A piece of a glob: `char` itself, or with `char` empty any character but those in `but`; again and again if `is_star`."""

    char: str = ""
    but: str = ""
    is_star: bool = False
    is_folders: bool = False


def matches(pattern: str, subject: str, *, is_path: bool) -> bool:
    """Match a glob against a whole subject in time linear in both, however many stars it has (a rule may be hostile)."""
    fixed = literal(pattern)
    if fixed is not None:
        return fixed == subject
    pieces = tokens(pattern, is_path=is_path)
    states = _closure({0}, pieces)
    for char in subject:
        states = _closure({after for state in states for after in _step(state, char, pieces)}, pieces)
        if not states:
            return False
    return len(pieces) in states


def escape(text: str) -> str:
    """Return the glob that matches this text and nothing else."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


@lru_cache(maxsize=1024)
def literal(pattern: str) -> str | None:
    """Return the one text that a pattern without wildcards stands for, else None."""
    if re.search(r"(?<!\\)(?:\\\\)*[*?\[]", pattern):
        return None
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def can_be_below(pattern: str, folder: str) -> bool:
    """Tell whether a path that a pattern matches can lie in a folder; `.` and an empty folder are the workspace itself."""
    wanted = pattern.split("/")
    for i, part in enumerate(each for each in folder.split("/") if each not in ("", ".")):
        if i >= len(wanted) - 1:
            return "**" in wanted[-1] or pattern == "*"
        if "**" in wanted[i]:
            return True
        if not can_meet(wanted[i], escape(part)):
            return False
    return True


def can_meet(one: str, other: str) -> bool:
    """Tell whether some text (without a `/`) matches both globs."""
    left, right = tokens(one, is_path=False), tokens(other, is_path=False)
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
def tokens(pattern: str, *, is_path: bool) -> tuple[Token, ...]:
    r"""Read a glob; a backslash takes the next character as itself.

    In paths `*` stops at `/` and `**` does not, `**/` is also nothing; in words of a command `*` is anything.
    """
    out: list[Token] = []
    i = 0
    while i < len(pattern):
        char, is_wide = pattern[i], not is_path or pattern == "*"
        if char == "\\" and i + 1 < len(pattern):
            out.append(Token(pattern[i + 1]))
            i += 1
        elif char == "*" and pattern[i : i + 3] == "**/" and is_path:
            out.append(Token(is_star=True, is_folders=True))
            i += 2
        elif char == "*":
            is_double = pattern[i : i + 2] == "**"
            out.append(Token(but="" if is_wide or is_double else "/", is_star=True))
            i += is_double
        elif char == "?":
            out.append(Token(but="/" if is_path else ""))
        else:
            out.append(Token(char))
        i += 1
    return tuple(out)


def _closure(states: set[int], pieces: tuple[Token, ...]) -> set[int]:
    """Return the states with those reached without a character.  `**/` is left only at its start or behind a `/`."""
    todo = list(states)
    while todo:
        state = todo.pop()
        if 0 <= state < len(pieces) and pieces[state].is_star and state + 1 not in states:
            states.add(state + 1)
            todo.append(state + 1)
    return states


def _step(state: int, char: str, pieces: tuple[Token, ...]) -> tuple[int, ...]:
    """Return where a character leads.  A negative state is inside the folders of a `**/`."""
    if state < 0:
        return (state, ~state) if char == "/" else (state,)
    if state >= len(pieces):
        return ()
    token = pieces[state]
    if token.is_folders:
        return (~state, state) if char == "/" else (~state,)
    fits = char == token.char if token.char else char not in token.but
    return () if not fits else (state,) if token.is_star else (state + 1,)
