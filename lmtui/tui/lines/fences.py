"""The code fences of a Markdown text, found for copying: exactly what stands between the markers.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENING = re.compile(r"^( {0,3})(`{3,}|~{3,})([^`\n]*)$")


@dataclass(frozen=True, slots=True)
class Fence:
    """One fence: its code, the word behind the marker, and the characters of the text that it reaches over."""

    code: str
    language: str
    start: int
    end: int


def fences_of(text: str) -> list[Fence]:
    """Return the fences of a text in order; one that is not closed reaches to the end."""
    found: list[Fence] = []
    marker, language, indent, start = "", "", 0, 0
    lines: list[str] = []
    at = 0
    for line in text.split("\n"):
        bare = line.removesuffix("\r")
        opening = _OPENING.match(bare) if not marker else None
        if opening:
            indent, marker, language, start, lines = len(opening[1]), opening[2], opening[3].strip(), at, []
        elif marker and _closes(bare, marker):
            found.append(Fence("\n".join(lines), language, start, at + len(line)))
            marker = ""
        elif marker:
            lines.append(bare[min(indent, len(bare) - len(bare.lstrip(" "))) :])
        at += len(line) + 1
    if marker:
        found.append(Fence("\n".join(lines).rstrip("\n"), language, start, len(text)))
    return found


def nearest(fences: list[Fence], at: int) -> int:
    """Return the number of the fence that a character is in, else of the next one, else of the last."""
    return next((number for number, fence in enumerate(fences) if fence.end > at), len(fences) - 1)


def _closes(line: str, marker: str) -> bool:
    text = line.strip()
    return len(text) >= len(marker) and not text.strip(marker[0]) and len(line) - len(line.lstrip(" ")) < 4
