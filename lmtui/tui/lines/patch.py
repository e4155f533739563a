"""Unified diffs as values, read leniently (git's and difflib's)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.lines.code import source_line
from lmtui.tui.lines.styled_text import StyleRole

NO_END = "⟨no line end⟩"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: `sign` is space, `+` or `-`; numbers count from 1 and are 0 on the side where the line is not.

    `note` is what cannot be seen in the text: that the last line of a file has no end.
    """

    sign: str
    old: int
    new: int
    text: str
    note: str = ""


class TextLines:
    """Some lines of a text with one sign.  They are cleaned one by one when they are looked at.

    Args:
        texts: the whole text's lines, with or without their ends.
        start, stop: which of them, from 0.
        old, new: the numbers of the first one on either side, 0 on the side where they are not.
        cut: how many characters at the beginning of each are not text (the sign in a unified diff).
        note: said of the last one.
    """

    def __init__(
        self, sign: str, texts: Sequence[str], start: int, stop: int, *, old: int, new: int, cut: int = 0, note: str = ""
    ) -> None:
        self.sign, self.old, self.new, self.note = sign, old, new, note
        self._texts, self._start, self._stop, self._cut = texts, start, max(start, stop), cut

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, at: int) -> DiffLine:
        text = source_line(self._texts[self._start + at][self._cut :].removesuffix("\n"))
        note = self.note if at == len(self) - 1 else ""
        return DiffLine(self.sign, self.old and self.old + at, self.new and self.new + at, text, note)

    def __iter__(self) -> Iterator[DiffLine]:
        return map(self.__getitem__, range(len(self)))

    def raw(self) -> Iterator[str]:
        """Yield the texts as they are, without their ends."""
        for at in range(self._start, self._stop):
            yield self._texts[at][self._cut :].removesuffix("\n")

    def part(self, start: int, stop: int) -> TextLines:
        """Return some of them, by where they are here; the note stays with the last."""
        old, new = self.old and self.old + start, self.new and self.new + start
        note = self.note if stop == len(self) else ""
        first = self._start + start
        return TextLines(self.sign, self._texts, first, self._start + stop, old=old, new=new, cut=self._cut, note=note)

    def fits(self, width: int) -> bool:
        """Tell whether each surely takes one line of so many cells: plain characters, and few enough of them."""
        texts = self._texts[self._start : self._stop]
        if self.note or max(map(len, texts), default=0) > width:
            return False
        whole = "".join(texts)
        return whole.isascii() and whole.replace("\r\n", "").replace("\n", "").isprintable()


NONE = TextLines(" ", (), 0, 0, old=0, new=0)


@dataclass(frozen=True, slots=True)
class Run:
    """Lines that were, and what is there instead of them; of unchanged lines only `new` is given."""

    old: TextLines
    new: TextLines

    @property
    def is_equal(self) -> bool:
        """Tell whether nothing changed here."""
        return self.new.sign == " " and len(self.new) > 0

    def lines(self) -> Iterator[DiffLine]:
        """Yield the lines one below the other."""
        yield from self.old
        yield from self.new


_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_LONGEST_DIFF = 65_000
_NOTHING = "(no text to compare)"
MINUS = "−"
SIGN_ROLES: Mapping[str, tuple[StyleRole, StyleRole]] = {"+": ("added", "good"), "-": ("removed", "bad")}  # ground, sign


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that belong together.  `skipped` unchanged lines are before it; they are in `before` where they are known."""

    runs: tuple[Run, ...]
    heading: str = ""
    skipped: int = 0
    before: TextLines = NONE

    @property
    def lines(self) -> Iterator[DiffLine]:
        """Return the lines one below the other."""
        return (line for run in self.runs for line in run.lines())

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many lines are added and removed."""
        changed = [run for run in self.runs if not run.is_equal]
        return sum(len(run.new) for run in changed), sum(len(run.old) for run in changed)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What happened to one file; `after` are the unchanged lines behind the last hunk, where they are known."""

    path: str
    hunks: tuple[Hunk, ...]
    note: str = ""
    after: TextLines = NONE

    @property
    def added(self) -> int:
        """Return how many lines were added."""
        return sum(hunk.counts[0] for hunk in self.hunks)

    @property
    def removed(self) -> int:
        """Return how many lines were removed."""
        return sum(hunk.counts[1] for hunk in self.hunks)


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
            runs, at = _runs_of_hunk(lines, at + 1, head)
            start = int(head[1]) + (head[2] == "0")
            hunks.append(Hunk(runs, sanitize_line(head[5]), max(0, start - 1 - last_old)))
            last_old = max((_last_old(run) for run in runs), default=last_old)
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
        counts = f"{word}+{change.added_lines} {MINUS}{change.removed_lines}"
        note = f"{counts}  (the rest is not shown)" if len(change.diff) >= _LONGEST_DIFF else counts if word else ""
        found += [replace(patch, path=path, note=note) for patch in patches] or [FilePatch(path, (), f"{word}{_NOTHING}")]
    return tuple(found)


def with_context(file: FilePatch, lines: Sequence[str]) -> FilePatch | None:
    """Return a patch with the unchanged lines between its hunks, taken from the new text; None where that is another text."""
    hunks: list[Hunk] = []
    seen_old = seen_new = 0
    for hunk in file.hunks:
        start = seen_new + hunk.skipped
        new = [line.text for line in hunk.lines if line.sign != "-"]
        if [source_line(line) for line in lines[start : start + len(new)]] != new:
            return None
        before = TextLines(" ", lines, seen_new, start, old=seen_old + 1, new=seen_new + 1)
        hunks.append(replace(hunk, before=before))
        added, removed = hunk.counts
        seen_old, seen_new = seen_old + hunk.skipped + len(new) - added + removed, start + len(new)
    end = len(lines) - (lines[-1:] == [""])
    return replace(file, hunks=tuple(hunks), after=TextLines(" ", lines, seen_new, end, old=seen_old + 1, new=seen_new + 1))


def divided(file: FilePatch) -> FilePatch:
    """Return a patch whose hunks are as fine as they can be chosen: neighbours halve the unchanged lines between them."""
    hunks: list[Hunk] = []
    for hunk in file.hunks:
        parts: list[list[Run]] = [[]]
        for run in hunk.runs:
            is_behind_change = len(parts[-1]) > 1 and parts[-1][-1].is_equal and any(not each.is_equal for each in parts[-1])
            if run.is_equal or not is_behind_change:
                parts[-1].append(run)
                continue
            between = parts[-1].pop().new
            half = len(between) // 2
            parts[-1] += [Run(NONE, between.part(0, half))] if half else []
            parts.append([Run(NONE, between.part(half, len(between))), run])
        hunks += [replace(hunk, runs=tuple(parts[0])), *(Hunk(tuple(each)) for each in parts[1:])]
    return replace(file, hunks=tuple(hunks))


def digits_of(files: Iterable[FilePatch]) -> int:
    """Return how many digits the line numbers need."""
    runs = (hunk.runs[-1] for file in files for hunk in file.hunks if hunk.runs)
    top = max((max(lines.old, lines.new) + len(lines) for run in runs for lines in (run.old, run.new)), default=0)
    return max(3, len(str(max(0, top - 1))))


def _runs_of_hunk(lines: list[str], at: int, head: re.Match[str]) -> tuple[tuple[Run, ...], int]:
    """Read as many lines as the head of a hunk says, or up to one that belongs to none."""
    old, new = int(head[1]), int(head[3])
    old_left, new_left = int(head[2] or 1), int(head[4] or 1)
    end = len(lines) - (lines[-1] == "")
    runs: list[Run] = []
    removed = NONE
    while at < end and (old_left > 0 or new_left > 0):
        sign = lines[at][:1] or " "
        if sign not in "+- ":
            if sign == "\\":
                at += 1
                continue
            break
        most = {"-": old_left, "+": new_left}.get(sign, max(old_left, new_left))
        stop = _end_of_run(lines, at, min(end, at + max(most, 1)), sign)
        size = stop - at
        note = NO_END if lines[stop : stop + 1] and lines[stop].startswith("\\") and sign != " " else ""
        part = TextLines(sign, lines, at, stop, old=old if sign != "+" else 0, new=new if sign != "-" else 0, cut=1, note=note)
        old, old_left = (old + size, old_left - size) if sign != "+" else (old, old_left)
        new, new_left = (new + size, new_left - size) if sign != "-" else (new, new_left)
        at = stop
        if len(removed) and sign != "+":
            runs.append(Run(removed, NONE))
            removed = NONE
        if sign == "-":
            removed = part
        else:
            runs.append(Run(removed, part) if sign == "+" else Run(NONE, part))
            removed = NONE
    if len(removed):
        runs.append(Run(removed, NONE))
    if lines[at : at + 1] and lines[at].startswith("\\"):
        at += 1
    return tuple(runs), at


def _end_of_run(lines: list[str], at: int, most: int, sign: str) -> int:
    while at < most and (lines[at][:1] or " ") == sign:
        at += 1
    return at


def _last_old(run: Run) -> int:
    lines = run.new if run.is_equal else run.old
    return lines.old + len(lines) - 1 if len(lines) else 0


def _path_of(line: str) -> str:
    name = line[4:].partition("\t")[0].strip()
    if name == "/dev/null":
        return ""
    return sanitize_path(name[2:] if name.startswith(("a/", "b/")) else name)
