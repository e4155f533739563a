"""Taking one hunk of a unified diff back out of a text that may have changed since."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lmtui.core.errors import SandboxError

_HEADER = re.compile(r"@@ -\d+(?:,\d+)? \+(?P<start>\d+)(?:,(?P<count>\d+))? @@")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk: its lines with their signs (space, minus, plus), and where (from 0) they stand in the changed text."""

    lines: tuple[str, ...]
    start: int

    @property
    def new(self) -> list[str]:
        """Return the lines as they became."""
        return [line[1:].removesuffix("\r") for line in self.lines if line[0] != "-"]


def parse_hunks(diff: str) -> list[Hunk]:
    """Return the hunks of a unified diff of one file (its format: GNU diffutils, “Detailed Description of Unified Format”)."""
    hunks: list[Hunk] = []
    lines: list[str] = []
    start = -1
    for line in [*diff.split("\n"), "@@ -0,0 +0,0 @@"]:
        if match := _HEADER.match(line):
            if start >= 0:
                hunks.append(Hunk(tuple(lines), start))
            lines, start = [], max(0, int(match["start"]) - (match["count"] != "0"))
        elif start >= 0 and line[:1] in (" ", "-", "+"):
            lines.append(line)
    return hunks


def take_back(diff: str, index: int, text: str) -> str:
    """Return `text` with one hunk of `diff` taken back.  Its lines are looked for near where they were, then everywhere.

    Raises:
        SandboxError: there is no such hunk, or its lines are not there any more, or more than once.
    """
    hunks = parse_hunks(diff)
    if not 0 <= index < len(hunks):
        raise SandboxError(f"the change has no hunk {index + 1}")
    hunk = hunks[index]
    lines = text.split("\n")
    plain = [line.removesuffix("\r") for line in lines]
    places = [i for i in range(len(lines) - len(hunk.new) + 1) if plain[i : i + len(hunk.new)] == hunk.new]
    if hunk.start in places:
        place = hunk.start
    elif len(places) == 1:
        place = places[0]
    else:
        why = "are there more than once" if places else "were changed since"
        raise SandboxError(f"the lines of this hunk {why}: take the whole file back, or edit it")
    there = lines[place : place + len(hunk.new)]
    return_sign = "\r" if any(line.endswith("\r") for line in there) else ""
    back: list[str] = []
    for line in hunk.lines:
        if line[0] == "-":
            back.append(line[1:].removesuffix("\r") + return_sign)
        else:
            kept = there.pop(0)
            back += [kept] if line[0] == " " else []
    return "\n".join([*lines[:place], *back, *lines[place + len(hunk.new) :]])
