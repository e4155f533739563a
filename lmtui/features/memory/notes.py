"""Notes: one line each of a Markdown file, written, read and compared.  No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line

MAX_NOTE_CHARS = 500
NO_NOTES = "No notes yet. Add one with /remember TEXT. Finished sessions propose notes; they appear in /memory."
_BULLET = re.compile(r"\A[-*+][ \t]+")
_SOURCE = re.compile(r"_\(([^()\n]{1,120})\)_\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WORD = re.compile(r"\w+")


class MemoryScope(StrEnum):
    """Where a note applies: in this folder, or in all folders of the user."""

    PROJECT = "project"
    USER = "user"


SCOPE_NAMES = {MemoryScope.PROJECT: "this folder", MemoryScope.USER: "all folders"}


class NoteKind(StrEnum):
    """What a note says: how things are, or how a mistake is avoided."""

    FACT = "fact"
    MISTAKE = "mistake"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of a memory file: `source` is the id of the session that it comes from, or `you`; `date` is an ISO date."""

    text: str
    scope: MemoryScope = MemoryScope.PROJECT
    source: str = ""
    date: str = ""
    kind: NoteKind = NoteKind.FACT

    @property
    def key(self) -> str:
        """Return the same for notes that say the same: case, blanks and punctuation do not count."""
        return note_key(self.text)


def note_key(text: str) -> str:
    """Return the words of a text by which it is known again."""
    return " ".join(_WORD.findall(text.casefold()))


def lines_with_notes(text: str, scope: MemoryScope) -> Iterator[tuple[str, Note | None]]:
    """Yield the lines of a memory file, each with its note: None for headings, comments, blank lines and fenced code."""
    is_fenced = False
    for line in text.splitlines(keepends=True):
        bare = line.strip()
        is_fence = bare.startswith(("```", "~~~"))
        is_note = bare and not (is_fence or is_fenced or bare.startswith(("#", "<!--")))
        is_fenced = is_fenced != is_fence
        note = parse_note(bare, scope) if is_note else None
        yield line, note if note is not None and note.key else None


def parse_notes(text: str, scope: MemoryScope) -> tuple[Note, ...]:
    """Return the notes of a memory file.  Twice the same counts once.  Lines are cut to `MAX_NOTE_CHARS`."""
    found: dict[str, Note] = {}
    for _, note in lines_with_notes(text, scope):
        if note is not None:
            found.setdefault(note.key, note)
    return tuple(found.values())


def parse_note(line: str, scope: MemoryScope) -> Note:
    """Return the note of one line, `- TEXT _(mistake, SESSION, DATE)_`; only the text is needed."""
    bare = _BULLET.sub("", line.strip())
    match = _SOURCE.search(bare)
    words = [word.strip() for word in match[1].split(",")] if match else []
    date = next((word for word in words if _DATE.fullmatch(word)), "")
    kind = NoteKind.MISTAKE if NoteKind.MISTAKE in words else NoteKind.FACT
    source = next((word for word in words if word not in (date, NoteKind.MISTAKE)), "")
    text = sanitize_line(bare[: match.start()].rstrip() if match and words else bare)
    return Note(text[:MAX_NOTE_CHARS], scope, sanitize_line(source), date, kind)


def note_line(note: Note) -> str:
    """Return a note as the line of a memory file."""
    about = ", ".join(filter(None, (note.kind if note.kind is NoteKind.MISTAKE else "", note.source, note.date)))
    return f"- {sanitize_line(note.text)}" + (f" _({about})_" if about else "")


def check_note(text: str) -> str:
    """Return the text of a note in one line.

    Raises:
        UsageError: it is empty, or too long.
    """
    line = _BULLET.sub("", sanitize_line(" ".join(text.split()))).strip()
    if not note_key(line):
        raise UsageError("the note is empty", "Write what to remember, for example: Run the tests with make check.")
    if len(line) > MAX_NOTE_CHARS:
        raise UsageError(f"the note has {len(line):,} characters; the limit is {MAX_NOTE_CHARS}", "Shorten it or split it.")
    return line


def with_words(notes: Iterable[Note], words: str, scope: MemoryScope | None = None) -> list[Note]:
    """Return the notes, of a scope where one is given, that contain a text; case and blanks do not count.

    Raises:
        UsageError: the text is empty.
    """
    wanted = " ".join(words.casefold().split())
    if not wanted:
        raise UsageError("which note should be forgotten?", "Give some of its words.")
    return [each for each in notes if wanted in " ".join(each.text.casefold().split()) and scope in (None, each.scope)]


def mistake_text(trigger: str, rule: str, cause: str = "", test: str = "") -> str:
    """Return a mistake and how it is avoided, as the text of a note."""
    more = "; ".join(f"{name}: {text.strip()}" for name, text in (("cause", cause), ("check", test)) if text.strip())
    return f"When {trigger.strip().rstrip('.')}: {rule.strip().rstrip('.')}." + (f" ({more})" if more else "")


def note_lines(notes: Iterable[Note]) -> list[str]:
    """Return notes for people, a line each, with where they apply and come from."""
    return [f"{note.text}  ({note_source(note)})" for note in notes]


def note_source(note: Note) -> str:
    """Return where a note applies and comes from."""
    return " · ".join(filter(None, (SCOPE_NAMES[note.scope], note.source, note.date)))
