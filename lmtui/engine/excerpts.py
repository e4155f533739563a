"""The lines of a long text that tell most: those of its beginning and, before all, of its end."""

from __future__ import annotations

_HEAD_SHARE = 0.3
_GAP = "\n[…]\n"


def decisive(text: str, limit_chars: int) -> str:
    """Return a text in at most so many characters: whole, or its first lines and its last ones, where errors are named."""
    text = text.strip()
    if len(text) <= limit_chars:
        return text
    room = max(2, limit_chars - len(_GAP))
    head_chars = int(room * _HEAD_SHARE)
    head, tail = text[:head_chars], text[len(text) - (room - head_chars) :]
    return f"{_to_line_end(head)}{_GAP}{_from_line_start(tail)}"


def _to_line_end(text: str) -> str:
    """Return a beginning without the half of a line at its end, if more than half of it stays."""
    whole = text.rpartition("\n")[0]
    return whole if 2 * len(whole) > len(text) else text


def _from_line_start(text: str) -> str:
    whole = text.partition("\n")[2]
    return whole if 2 * len(whole) > len(text) else text
