"""A number with its thing, in words."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """Return a number with its thing: `1 file`, `2,000 files`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
