"""Unified diffs as values, read leniently (git's and difflib's)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.lines.code import source_line
from lmtui.tui.lines.styled_text import Line, StyleRole

NO_END = "⟨no line end⟩"


class DiffLine(NamedTuple):
    """One line: `sign` is space, `+` or `-`; numbers count from 1 and are 0 on the side where the line is not.

    `raw` is cleaned when it is looked at.  `note` is what cannot be seen in it: that the last line of a file has no end.
    """

    sign: str
    old: int
    new: int
    raw: str
    note: str = ""

    @property
    def text(self) -> str:
        """Return the line as it is shown."""
        return source_line(self.raw)


Lines = tuple[DiffLine, ...]


_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_LONGEST_DIFF = 65_000
_NOTHING = "(no text to compare)"
MINUS = "−"
SIGN_ROLES: Mapping[str, tuple[StyleRole, StyleRole]] = {"+": ("added", "good"), "-": ("removed", "bad")}  # ground, sign


def counts_text(added: int, removed: int) -> str:
    """Return how many lines were added and removed, such as `+9 −2` or `+9`."""
    return " ".join(([f"+{added:,}"] if added else []) + ([f"{MINUS}{removed:,}"] if removed else []))


def counts_line(added: int, removed: int) -> Line:
    """Return the same in colours."""
    words = counts_text(added, removed).split()
    return tuple((f" {word}" if at else word, "good" if word[0] == "+" else "bad") for at, word in enumerate(words))


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that belong together, `skipped` unchanged lines before them."""

    lines: Lines
    heading: str = ""
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What happened to one file."""

    path: str
    hunks: tuple[Hunk, ...]
    note: str = ""


def changed_lines(files: Iterable[FilePatch]) -> tuple[int, int]:
    """Return how many lines are added and removed."""
    signs = [line.sign for file in files for hunk in file.hunks for line in hunk.lines]
    return signs.count("+"), signs.count("-")


def parse_patch(text: str, path: str = "") -> tuple[FilePatch, ...]:
    """Read a unified diff of one or more files; `path` names a file that the diff does not."""
    files: list[FilePatch] = []
    hunks: list[Hunk] = []
    note, path = "", sanitize_path(path)
    last_old = 0
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        head = _HUNK.match(line) if line.startswith("@@") else None
        if head:
            found, at = _lines_of_hunk(lines, at + 1, head)
            start = int(head[1]) + (head[2] == "0")
            hunks.append(Hunk(found, sanitize_line(head[5]), max(0, start - 1 - last_old)))
            last_old = start - 1 + sum(each.sign != "+" for each in found)
            continue
        if line.startswith(("diff --git ", "--- ")) and hunks:
            files.append(FilePatch(path, tuple(hunks), note))
            hunks, note, path, last_old = [], "", "", 0
        if line.startswith(("--- ", "+++ ")):
            path = _path_of(line) or path
        elif line.startswith("Binary files "):
            note = "binary"
        at += 1
    if hunks or note:
        files.append(FilePatch(path, tuple(hunks), note))
    return tuple(files)


def patches_of(changes: Iterable[FileChange]) -> tuple[FilePatch, ...]:
    """Return the patches of changed files under their own paths; a file without text to compare has a note instead."""
    found: list[FilePatch] = []
    for change in changes:
        path = sanitize_path(change.path)
        patches = parse_patch(change.diff, path)
        word = "" if change.kind is FileChangeKind.MODIFIED else f"{change.kind}  "
        counts = word + counts_text(change.added_lines, change.removed_lines)
        note = f"{counts}  (the rest is not shown)" if len(change.diff) >= _LONGEST_DIFF else counts if word else ""
        found += [replace(patch, path=path, note=note) for patch in patches] or [FilePatch(path, (), f"{word}{_NOTHING}")]
    return tuple(found)


def divided(file: FilePatch) -> FilePatch:
    """Return a patch whose hunks are as fine as they can be chosen: neighbours halve the unchanged lines between them."""
    hunks: list[Hunk] = []
    for hunk in file.hunks:
        groups = [list(group) for _, group in groupby(hunk.lines, key=lambda line: line.sign == " ")]
        parts: list[list[DiffLine]] = [[]]
        for number, lines in enumerate(groups):
            is_between = lines[0].sign == " " and 0 < number < len(groups) - 1
            half = len(lines) // 2 if is_between else len(lines)
            parts[-1] += lines[:half]
            parts += [lines[half:]] if is_between else []
        hunks += [replace(hunk, lines=tuple(parts[0])), *(Hunk(tuple(each)) for each in parts[1:])]
    return replace(file, hunks=tuple(hunks))


def digits_of(files: Iterable[FilePatch]) -> int:
    """Return how many digits the line numbers need."""
    numbers = (max(line.old, line.new) for file in files for hunk in file.hunks for line in hunk.lines)
    return max(3, len(str(max(numbers, default=0))))


def _lines_of_hunk(lines: list[str], at: int, head: re.Match[str]) -> tuple[Lines, int]:
    """Read as many lines as the head of a hunk says, or up to one that belongs to none."""
    old, new = int(head[1]), int(head[3])
    old_end, new_end = old + int(head[2] or 1), new + int(head[4] or 1)
    end = len(lines) - (lines[-1] == "")
    found: list[DiffLine] = []
    while at < end:
        sign = lines[at][:1] or " "
        if sign == "\\":
            if found and found[-1].sign != " ":
                found[-1] = found[-1]._replace(note=NO_END)
        elif sign in "+- " and (old < old_end or new < new_end):
            found.append(DiffLine(sign, old if sign != "+" else 0, new if sign != "-" else 0, lines[at][1:]))
            old, new = old + (sign != "+"), new + (sign != "-")
        else:
            break
        at += 1
    return tuple(found), at


def _path_of(line: str) -> str:
    name = line[4:].partition("\t")[0].strip()
    if name == "/dev/null":
        return ""
    return sanitize_path(name[2:] if name.startswith(("a/", "b/")) else name)
