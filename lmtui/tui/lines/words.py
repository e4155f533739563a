"""What of a changed line is really different, word by word.  Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

_LEAST_COMMON = 0.3
_LONGEST_COMPARED = 1000
_MOST_WORDS = 250
_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Ranges = tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)
def changed_ranges(text: str, other: str) -> Ranges:
    """Return the characters of `text`, from and up to, that `other` has not; none where the two have too little in common."""
    if not text or not other or max(len(text), len(other)) > _LONGEST_COMPARED:
        return ()
    words, others = _WORD.findall(text), _WORD.findall(other)
    head = _common(words, others)
    tail = _common(words[head:][::-1], others[head:][::-1])
    inner, inner_others = words[head : len(words) - tail], others[head : len(others) - tail]
    changed = [False] * head + _changed(inner, inner_others) + [False] * tail
    kept = sum(len(word) for word, is_changed in zip(words, changed, strict=True) if not is_changed and not word.isspace())
    if kept < _LEAST_COMMON * len(text.replace(" ", "")):
        return ()
    return _ranges(words, changed)


def _changed(words: list[str], others: list[str]) -> list[bool]:
    if not others or len(words) + len(others) > _MOST_WORDS:
        return [True] * len(words)
    changed = [True] * len(words)
    for block in SequenceMatcher(None, words, others, autojunk=False).get_matching_blocks():
        changed[block.a : block.a + block.size] = [False] * block.size
    return changed


def _ranges(words: list[str], changed: list[bool]) -> Ranges:
    """Return the stretches of changed words; blanks between two changed words belong to them."""
    found: list[tuple[int, int]] = []
    at = 0
    blank_since = -1
    for word, is_changed in zip(words, changed, strict=True):
        end = at + len(word)
        if is_changed and found and found[-1][1] in (at, blank_since):
            found[-1] = (found[-1][0], end)
        elif is_changed:
            found.append((at, end))
        blank_since = at if not is_changed and word.isspace() else -1
        at = end
    return tuple(found)


def _common(left: list[str], right: list[str]) -> int:
    size = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        size += 1
    return size
