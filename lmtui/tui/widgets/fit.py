"""Fits words into one line: what matters least goes first when the width is short.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content


@dataclass(frozen=True, slots=True)
class Part:
    """Some words with a style of theme variables; the higher `rank` is dropped the earlier, rank 0 never."""

    text: str
    style: str = ""
    rank: int = 0


def fit_line(left: Sequence[Part], right: Sequence[Part], width: int, gap: str = "  ") -> Content:
    """Return one line of a width in cells: `left` parts, blank, `right` parts; too long a line loses parts, then its end."""
    kept_left, kept_right = [part for part in left if part.text], [part for part in right if part.text]
    while _width(kept_left, gap) + _width(kept_right, gap) + len(gap) > width:
        worst = max((part.rank for part in (*kept_left, *kept_right)), default=0)
        if worst == 0:
            break
        _drop_last(kept_right if any(part.rank == worst for part in kept_right) else kept_left, worst)
    before, after = _join(kept_left, gap), _join(kept_right, gap)
    space = max(width - before.cell_length - after.cell_length, len(gap) if kept_left and kept_right else 0)
    return Content.assemble(before, " " * space, after).truncate(width, ellipsis=True)


def _join(parts: Sequence[Part], gap: str) -> Content:
    return Content(gap).join([Content.styled(part.text, part.style) for part in parts])


def _width(parts: Sequence[Part], gap: str) -> int:
    return _join(parts, gap).cell_length


def _drop_last(parts: list[Part], rank: int) -> None:
    index = max(i for i, part in enumerate(parts) if part.rank == rank)
    del parts[index]
