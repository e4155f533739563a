"""Taking one hunk of a unified diff back out of a text that may have changed since."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lmtui.core.errors import SandboxError

_HEADER = re.compile(r"@@ -(?P<old>\d+)(?:,(?P<old_count>\d+))? \+(?P<start>\d+)(?:,(?P<count>\d+))? @@")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk: its lines with their signs (space, minus, plus), and where (from 0) they stand in the changed text.

    `old_start` is where they stood before.  Not `is_whole`: lines are missing, or only one text has a line break at its end.
    """

    lines: tuple[str, ...]
    start: int
    old_start: int
    is_whole: bool = True

    @property
    def new(self) -> list[str]:
        """Return the lines as they became."""
        return [line[1:].removesuffix("\r") for line in self.lines if line[0] != "-"]

    @property
    def old(self) -> list[str]:
        """Return the lines as they were."""
        return [line[1:].removesuffix("\r") for line in self.lines if line[0] != "+"]


def parse_hunks(diff: str) -> list[Hunk]:
    """Return the hunks of a unified diff of one file (its format: GNU diffutils, “Detailed Description of Unified Format”)."""
    hunks: list[Hunk] = []
    lines: list[str] = []
    ends: set[str] = set()
    header: re.Match[str] | None = None
    for line in [*diff.split("\n"), "@@ -0,0 +0,0 @@"]:
        if match := _HEADER.match(line):
            if header is not None:
                hunks.append(_hunk(header, lines, ends))
            header, lines, ends = match, [], set()
        elif header is not None and line[:1] in (" ", "-", "+"):
            lines.append(line)
        elif line.startswith("\\") and lines:  # “\ No newline at end of file”
            ends.add(lines[-1][0])
    return hunks


def _hunk(header: re.Match[str], lines: list[str], ends: set[str]) -> Hunk:
    old_count, count = (int(header[name] or 1) for name in ("old_count", "count"))
    start, old_start = (max(0, int(header[name]) - bool(size)) for name, size in (("start", count), ("old", old_count)))
    hunk = Hunk(tuple(lines), start, old_start)
    is_cut = (len(hunk.old), len(hunk.new)) != (old_count, count)
    return replace(hunk, is_whole=not is_cut and ("-" in ends) == ("+" in ends))


def take_back(diff: str, index: int, text: str, old: str) -> str:
    """Return `text` with one hunk of `diff` taken back.  Its lines are looked for near where they were, then everywhere.

    A diff is made to be shown: what it says of `old`, the text before the change, is believed only where it is true.

    Raises:
        SandboxError: there is no such hunk, or its lines are not there any more, or more than once, or the diff is cut or does
            not show them as they are.
    """
    hunks = parse_hunks(diff)
    if not 0 <= index < len(hunks):
        raise SandboxError(f"the change has no hunk {index + 1}")
    hunk = hunks[index]
    were = [line.removesuffix("\r") for line in old.split("\n")]
    if not hunk.is_whole or were[hunk.old_start : hunk.old_start + len(hunk.old)] != hunk.old:
        raise SandboxError("this hunk is cut, or cannot be shown just as it is: take the whole file back")
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
