"""Unified diffs as values, read leniently (git's and difflib's), and pairs of texts turned into the same values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from lmtui.core.clean import clean_line
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.lines.text import Line, fold, indent

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_CONTEXT = 3
_LONGEST_DIFF = 65_000
_NOTHING = "(no text to compare)"
MINUS = "−"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: `sign` is space, `+` or `-`; numbers count from 1 and are 0 on the side where the line is not."""

    sign: str
    old: int
    new: int
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that belong together.  `skipped` equal lines stand before it; they are in `before` where they are known."""

    lines: tuple[DiffLine, ...]
    heading: str = ""
    skipped: int = 0
    before: tuple[DiffLine, ...] = ()


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What happened to one file; `after` are the equal lines behind the last hunk, where they are known."""

    path: str
    hunks: tuple[Hunk, ...]
    note: str = ""
    after: tuple[DiffLine, ...] = ()

    @property
    def added(self) -> int:
        """Return how many lines were added."""
        return sum(line.sign == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        """Return how many lines were removed."""
        return sum(line.sign == "-" for hunk in self.hunks for line in hunk.lines)


def parse_patch(text: str, path: str = "") -> tuple[FilePatch, ...]:
    """Read a unified diff of one or more files; `path` names a file that the diff does not."""
    files: list[FilePatch] = []
    hunks: list[Hunk] = []
    note = ""
    last_old = 0
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        hunk = _HUNK.match(line)
        if hunk:
            body, at = _hunk_lines(lines, at + 1, hunk)
            start = int(hunk[1]) + (hunk[2] == "0")
            hunks.append(Hunk(body, clean_line(hunk[5]), max(0, start - 1 - last_old)))
            last_old = max((each.old for each in body), default=last_old)
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
        path = clean_line(change.path)
        patches = parse_patch(change.diff, path)
        word = "" if change.kind is FileChangeKind.MODIFIED else f"{change.kind}  "
        counts = f"{word}+{change.added_lines} {MINUS}{change.removed_lines}"
        note = f"{counts}  (the rest is not shown)" if len(change.diff) >= _LONGEST_DIFF else counts if word else ""
        found += [replace(patch, path=path, note=note) for patch in patches] or [FilePatch(path, (), f"{word}{_NOTHING}")]
    return tuple(found)


def patch_of_texts(path: str, old: str, new: str) -> FilePatch:
    """Compare two texts.  Slow for large ones (difflib): call it away from the event loop above some thousand lines."""
    before, after = old.splitlines(), new.splitlines()
    matcher = SequenceMatcher(None, before, after, autojunk=len(before) + len(after) > 4000)
    hunks: list[Hunk] = []
    seen = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        start = group[0][1]
        shift = group[0][3] - start
        body = tuple(line for code in group for line in _lines_of_code(code, before, after))
        skipped = tuple(_equal(before, number, number + shift) for number in range(seen, start))
        hunks.append(Hunk(body, "", len(skipped), skipped))
        seen = group[-1][2]
    shift = len(after) - len(before)
    rest = tuple(_equal(before, number, number + shift) for number in range(seen, len(before))) if hunks else ()
    return FilePatch(path, tuple(hunks), "" if hunks else "no difference", rest)


def unified_lines(hunk: Hunk, width: int, digits: int) -> list[Line]:
    """Return the lines of a hunk one below the other, with both line numbers and a sign."""
    found: list[Line] = []
    for line in hunk.lines:
        role = {"+": "added", "-": "removed"}.get(line.sign, "")
        sign = MINUS if line.sign == "-" else line.sign
        numbers = f"{line.old or '':>{digits}} {line.new or '':>{digits}} "
        body: Line = ((line.text, role),)
        lead: Line = ((numbers, "muted"), (f"{sign} ", {"+": "good", "-": "bad"}.get(line.sign, "")))
        rest: Line = ((" " * (len(numbers) + 2), ""),)
        found += indent(fold(body, max(8, width - len(numbers) - 2)), lead, rest)
    return found


def digits_of(files: Iterable[FilePatch]) -> int:
    """Return how many digits the line numbers need."""
    top = max((max(line.old, line.new) for file in files for hunk in file.hunks for line in hunk.lines[-1:]), default=0)
    return max(3, len(str(top)))


def _hunk_lines(lines: list[str], at: int, head: re.Match[str]) -> tuple[tuple[DiffLine, ...], int]:
    old, new = int(head[1]), int(head[3])
    old_left = int(head[2] or 1)
    new_left = int(head[4] or 1)
    found: list[DiffLine] = []
    end = len(lines) - (lines[-1] == "")
    while at < end and (old_left > 0 or new_left > 0):
        sign, text = (lines[at][:1] or " "), _shown(lines[at][1:])
        at += 1
        match sign:
            case "+":
                found.append(DiffLine("+", 0, new, text))
                new, new_left = new + 1, new_left - 1
            case "-":
                found.append(DiffLine("-", old, 0, text))
                old, old_left = old + 1, old_left - 1
            case " ":
                found.append(DiffLine(" ", old, new, text))
                old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
            case "\\":
                continue
            case _:
                return tuple(found), at - 1
    return tuple(found), at


def _path_of(line: str) -> str:
    name = line[4:].partition("\t")[0].strip()
    if name == "/dev/null":
        return ""
    return clean_line(name[2:] if name.startswith(("a/", "b/")) else name)


def _lines_of_code(code: tuple[str, int, int, int, int], before: list[str], after: list[str]) -> Iterator[DiffLine]:
    kind, old_start, old_end, new_start, new_end = code
    if kind == "equal":
        yield from (_equal(before, number, number + new_start - old_start) for number in range(old_start, old_end))
        return
    yield from (DiffLine("-", number + 1, 0, _shown(before[number])) for number in range(old_start, old_end))
    yield from (DiffLine("+", 0, number + 1, _shown(after[number])) for number in range(new_start, new_end))


def _equal(before: list[str], old: int, new: int) -> DiffLine:
    return DiffLine(" ", old + 1, new + 1, _shown(before[old]))


def _shown(text: str) -> str:
    return clean_line(text.removesuffix("\r").expandtabs(4))
