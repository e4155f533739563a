"""Tables in lines: columns as wide as they need, narrowed and wrapped where the pane is not wide enough."""

from __future__ import annotations

from dataclasses import dataclass

from lmtui.tui.lines.text import Line, Span, crop, plain, width_of, wrap

_RULE = " │ "
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
    room = width - len(_RULE) * (count - 1)
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
                spans.append((_RULE, "muted"))
            spans += _aligned(part, size, cells[at].align if at < len(cells) else "", is_head=is_head)
        found.append(_trimmed(spans))
    return found


def _aligned(part: Line, size: int, align: str, *, is_head: bool) -> list[Span]:
    rest = max(0, size - width_of(part))
    before = rest if align == "right" else rest // 2 if align == "center" else 0
    body = [(text, f"{role} strong".strip() if is_head else role) for text, role in part]
    return [span for span in ((" " * before, ""), *body, (" " * (rest - before), "")) if span[0]]


def _trimmed(spans: list[Span]) -> Line:
    while spans and not plain((spans[-1],)).strip():
        spans = spans[:-1]
    return tuple(spans)
