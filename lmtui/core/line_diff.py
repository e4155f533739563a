"""Two texts compared line by line, and the hunks of what differs: the one comparison behind what is shown and what is applied.

Lines that are once in either text are matched first (Bram Cohen's “patience diff”), so that the work grows with the size of
the texts; only small stretches between them go to difflib.  Nothing here does I/O; compare large texts in a thread.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

CONTEXT = 3
_SMALL_PRODUCT = 250_000
_SMALL_SUM = 4_000
_HEADER = re.compile(r"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.MULTILINE)

_EQUAL, _CHANGED = True, False
_Range = tuple[int, int, int, int]


class Span(NamedTuple):
    """Lines of the old text and what means them in the new one, both from 0; equal ones are as many on either side."""

    is_equal: bool
    old_start: int
    old_end: int
    new_start: int
    new_end: int


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their ends.  Only `\n` ends a line, as in a unified diff."""
    lines = text.split("\n")
    last = lines.pop()
    found = [f"{line}\n" for line in lines]
    return [*found, last] if last else found


def compare(old: Sequence[str], new: Sequence[str]) -> list[Span]:
    """Return the spans of two texts in their order, equal ones and others in turn."""
    found: list[Span] = []
    old_at = new_at = 0
    for old_start, new_start, size in (*_joined(sorted(_matches(old, new))), (len(old), len(new), 0)):
        if old_at < old_start or new_at < new_start:
            found.append(Span(_CHANGED, old_at, old_start, new_at, new_start))
        old_at, new_at = old_start + size, new_start + size
        if size:
            found.append(Span(_EQUAL, old_start, old_at, new_start, new_at))
    return found


def hunks_of(spans: Sequence[Span], *, is_fine: bool = False) -> list[list[Span]]:
    """Return the hunks, each with at most `CONTEXT` unchanged lines before, after and twice as many within.

    `is_fine`: unchanged lines always end a hunk, as where hunks are chosen one by one; neighbours share what is between them.
    """
    found: list[list[Span]] = []
    for at, span in enumerate(spans):
        if span.is_equal:
            continue
        before = spans[at - 1] if at else None
        is_near = not is_fine and before is not None and before.old_end - before.old_start <= 2 * CONTEXT
        if found and is_near and before is not None:
            found[-1][-1] = before  # the whole of it, in the place of its first lines
        else:
            found.append([_last_lines(before)] if before is not None else [])
        found[-1].append(span)
        if at + 1 < len(spans):
            found[-1].append(_first_lines(spans[at + 1]))
    return found


def with_hunks(old: Sequence[str], new: Sequence[str], spans: Sequence[Span], chosen: Collection[int]) -> str:
    """Return the old text with only some of its fine hunks (by number, as `hunks_of` counts them) applied, to the byte."""
    found: list[str] = []
    at = 0
    for number, span in enumerate(span for span in spans if not span.is_equal):
        found += old[at : span.old_start]
        found += new[span.new_start : span.new_end] if number in chosen else old[span.old_start : span.old_end]
        at = span.old_end
    return "".join([*found, *old[at:]])


def hunk_spans(diff: str) -> list[Span]:
    """Return which lines each hunk of a unified diff of one file is about; nothing where they do not follow each other."""
    found: list[Span] = []
    for each in _HEADER.finditer(diff):
        (old, old_size), (new, new_size) = ((int(each[at]), int(each[at + 1] or 1)) for at in (1, 3))
        old, new = old - (old_size > 0), new - (new_size > 0)  # of an empty range the line before it is named
        if old < (found[-1].old_end if found else 0) or new < (found[-1].new_end if found else 0):
            return []
        found.append(Span(_CHANGED, old, old + old_size, new, new + new_size))
    return found


def merge(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> str | None:
    """Return `base` with the changes of both; None where they change the same lines, or neighbouring ones, in two ways."""
    edits = {
        (span.old_start, span.old_end, tuple(side[span.new_start : span.new_end]))
        for side in (ours, theirs)
        for span in compare(base, side)
        if not span.is_equal
    }
    found: list[str] = []
    at, is_first = 0, True
    for start, end, lines in sorted(edits):
        if start <= at and not is_first:
            return None
        found += [*base[at:start], *lines]
        at, is_first = end, False
    return "".join([*found, *base[at:]])


def _first_lines(span: Span) -> Span:
    size = min(CONTEXT, span.old_end - span.old_start)
    return span._replace(old_end=span.old_start + size, new_end=span.new_start + size)


def _last_lines(span: Span) -> Span:
    size = min(CONTEXT, span.old_end - span.old_start)
    return span._replace(old_start=span.old_end - size, new_start=span.new_end - size)


def _joined(matches: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield matches, those that follow each other on both sides as one."""
    old = new = size = 0
    for next_old, next_new, next_size in matches:
        if old + size == next_old and new + size == next_new:
            size += next_size
            continue
        if size:
            yield old, new, size
        old, new, size = next_old, next_new, next_size
    if size:
        yield old, new, size


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    waiting: list[_Range] = [(0, len(old), 0, len(new))]
    while waiting:
        old_start, old_end, new_start, new_end = waiting.pop()
        size = _equal_head(old, new, (old_start, old_end, new_start, new_end))
        if size:
            found.append((old_start, new_start, size))
            old_start, new_start = old_start + size, new_start + size
        size = _equal_tail(old, new, (old_start, old_end, new_start, new_end))
        if size:
            old_end, new_end = old_end - size, new_end - size
            found.append((old_end, new_end, size))
        if old_start == old_end or new_start == new_end:
            continue
        anchors = _anchors(old, new, (old_start, old_end, new_start, new_end))
        if not anchors:
            found += _slowly(old, new, (old_start, old_end, new_start, new_end))
            continue
        for old_at, new_at in anchors:
            if old_at < old_start or new_at < new_start:
                continue  # in the unchanged lines behind an anchor before
            if old_start < old_at and new_start < new_at:
                waiting.append((old_start, old_at, new_start, new_at))
            size = _equal_head(old, new, (old_at, old_end, new_at, new_end))
            found.append((old_at, new_at, size))
            old_start, new_start = old_at + size, new_at + size
        waiting.append((old_start, old_end, new_start, new_end))
    return found


def _equal_head(old: Sequence[str], new: Sequence[str], where: _Range) -> int:
    old_start, old_end, new_start, new_end = where
    most = min(old_end - old_start, new_end - new_start)
    size = 0
    while size < most and old[old_start + size] == new[new_start + size]:
        size += 1
    return size


def _equal_tail(old: Sequence[str], new: Sequence[str], where: _Range) -> int:
    old_start, old_end, new_start, new_end = where
    most = min(old_end - old_start, new_end - new_start)
    size = 0
    while size < most and old[old_end - 1 - size] == new[new_end - 1 - size]:
        size += 1
    return size


def _anchors(old: Sequence[str], new: Sequence[str], where: _Range) -> list[tuple[int, int]]:
    """Return the longest run, in order on both sides, of lines that are once in each."""
    old_start, old_end, new_start, new_end = where
    in_old, in_new = _once(old, old_start, old_end), _once(new, new_start, new_end)
    pairs = [(at, in_new[line]) for line, at in in_old.items() if line in in_new]
    ends: list[int] = []  # the least end of a run of each length, and which pair that is
    tops: list[int] = []
    before: list[int] = []
    for number, (_, new_at) in enumerate(pairs):
        place = len(ends) if not ends or new_at > ends[-1] else bisect_left(ends, new_at)
        before.append(tops[place - 1] if place else -1)
        if place == len(ends):
            ends.append(new_at)
            tops.append(number)
        else:
            ends[place], tops[place] = new_at, number
    found: list[tuple[int, int]] = []
    number = tops[-1] if tops else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _once(lines: Sequence[str], start: int, end: int) -> dict[str, int]:
    """Return the lines that are once, in their order, with their places."""
    counts = Counter(lines[start:end])
    return {line: at for at, line in enumerate(lines[start:end], start) if counts[line] == 1}


def _slowly(old: Sequence[str], new: Sequence[str], where: _Range) -> list[tuple[int, int, int]]:
    """Return what difflib finds equal."""
    old_start, old_end, new_start, new_end = where
    is_small = (old_end - old_start) * (new_end - new_start) <= _SMALL_PRODUCT
    if not is_small and old_end - old_start + new_end - new_start > _SMALL_SUM:
        return []
    matcher = SequenceMatcher(None, old[old_start:old_end], new[new_start:new_end], autojunk=not is_small)
    return [(old_start + at, new_start + to, size) for at, to, size in matcher.get_matching_blocks() if size]
