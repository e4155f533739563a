"""What is remembered, as values: notes in Markdown files, what a search found, proposals that wait for the user.  No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from lmtui.core.errors import UsageError
from lmtui.core.events import Event
from lmtui.core.remote_marks import open_to_network
from lmtui.core.sanitize import sanitize, sanitize_line

MAX_NOTE_CHARS = 500
NO_NOTES = "No notes yet. Add one with /remember TEXT. Finished sessions propose notes; they appear in /memory."
NO_PROPOSALS = "No proposals yet. Notes from finished sessions appear here; nothing is remembered until you keep it."
_BULLET = re.compile(r"\A[-*+][ \t]+")
_SOURCE = re.compile(r"_\(([^()\n]{1,120})\)_\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DESCRIPTION = re.compile(r"^description: *(.+)$", re.MULTILINE)
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


def has_words(words: str) -> Callable[[Note], bool]:
    """Return what tells whether a note contains a text; case and blanks do not count.

    Raises:
        UsageError: the text is empty.
    """
    wanted = " ".join(words.casefold().split())
    if not wanted:
        raise UsageError("which note should be forgotten?", "Give some of its words.")
    return lambda note: wanted in " ".join(note.text.casefold().split())


def mistake_text(trigger: str, rule: str, cause: str = "", test: str = "") -> str:
    """Return a mistake and how it is avoided, as the text of a note."""
    more = "; ".join(f"{name}: {text.strip()}" for name, text in (("cause", cause), ("check", test)) if text.strip())
    return f"When {trigger.strip().rstrip('.')}: {rule.strip().rstrip('.')}." + (f" ({more})" if more else "")


class SearchSource(StrEnum):
    """What is searched: notes, earlier sessions of the folder, its documents and its code."""

    MEMORY = "memory"
    SESSION = "session"
    DOC = "doc"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """Something that a search found.

    `place` says where: `src/a.py:10-42`, the id of a session, or the scope of a note.
    """

    source: SearchSource
    place: str
    text: str
    title: str = ""


ORIGIN_NAMES = {
    "you": "you", "model": "the agent's answer", "tool": "tool output", "mcp": "an MCP server", "web": "a web page",
}  # fmt: skip
KIND_NAMES = {"fact": "Fact", "mistake": "Correction", "skill": "Skill", "instructions": "Instruction"}


class ProposalKind(StrEnum):
    """What a proposal would become."""

    FACT = "fact"
    MISTAKE = "mistake"
    SKILL = "skill"
    INSTRUCTIONS = "instructions"


NOTE_KINDS = (ProposalKind.FACT, ProposalKind.MISTAKE)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was said or done in a session that a proposal is made from; `turn` counts from 1.

    `origin` is `you`, `model`, `tool`, `web` or `mcp`: only what the user said can become an instruction.
    """

    text: str
    origin: str = "you"
    turn: int = 0


@dataclass(frozen=True, slots=True)
class MemoryProposal:
    """Something that a finished session taught, which the user has not decided about.

    `text` is the line of a note, a whole SKILL.md, or a unified diff of AGENTS.md, by `kind`; `name` is that of the skill, or
    the line that is added.  `similar` are notes that are kept already and say much the same; `file` is where it would go.
    """

    id: str
    kind: ProposalKind
    text: str
    scope: MemoryScope = MemoryScope.PROJECT
    session: str = ""
    date: str = ""
    name: str = ""
    evidence: tuple[Evidence, ...] = ()
    similar: tuple[str, ...] = ()
    file: str = ""

    @property
    def origins(self) -> frozenset[str]:
        """Return where it comes from."""
        return frozenset(each.origin for each in self.evidence)

    @property
    def claim(self) -> str:
        """Return in a line what it says."""
        about = _DESCRIPTION.search(self.text) if self.kind is ProposalKind.SKILL else None
        named = ": ".join((self.name, about[1].strip('"'))) if about is not None else self.name
        return sanitize_line(self.text if self.kind in NOTE_KINDS else named)

    @property
    def source_text(self) -> str:
        """Return in words where it comes from."""
        if foreign := [ORIGIN_NAMES[each] for each in ORIGIN_NAMES if each in self.origins and each != "you"]:
            return f"from {foreign[-1]}"
        count = len(self.evidence)
        times = "" if count < 2 else " twice" if count == 2 else f" {count} times"
        return f"{'you corrected it' if self.kind is ProposalKind.MISTAKE else 'you said it'}{times}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalsChanged(Event):
    """The memory inbox changed: `waiting` proposals wait for the user."""

    kind: ClassVar[str] = "proposals_changed"
    durable: ClassVar[bool] = False
    waiting: int


class WorkspaceMemory(Protocol):
    """The memory of a workspace and its user, as tools and front ends see it."""

    @property
    @open_to_network
    def waiting(self) -> int:
        """Return how many proposals wait for the user."""

    async def notes(self) -> Sequence[Note]:
        """Return every note, those of this folder first.  What a folder brings and is not trusted is left out."""

    async def search(self, query: str, limit: int = 5, sources: Sequence[SearchSource] = ()) -> Sequence[SearchHit]:
        """Return the best hits, best first, from these sources (none: all).

        Raises:
            UsageError: the query has no words.
        """

    async def add(self, note: Note) -> bool:
        """Keep a note; False where it is kept already.

        Raises:
            UsageError: it has no words or too many, the folder's memory is not trusted, or the file cannot be written.
        """

    async def forget(self, words: str, scope: MemoryScope | None = None) -> Sequence[Note]:
        """Take out the notes that contain a text (case does not count) and return them.

        Raises:
            UsageError: the text is empty, the folder's memory is not trusted, or the file cannot be written.
        """

    async def warnings(self) -> Sequence[str]:
        """Return why notes are missing, all or some, in words for the user."""

    async def remove(self, note: Note) -> None:
        """Take out this note alone; nothing where it is gone.

        Raises:
            UsageError: see `forget`.
        """

    async def change(self, old: Note, new: Note) -> None:
        """Put a note in the place of another, in the same file or (where the scope differs) in the other one.

        Raises:
            UsageError: the old one is gone; see `add`.
        """

    async def proposals(self) -> Sequence[MemoryProposal]:
        """Return what waits for the user, the newest first."""

    async def keep(self, proposal_id: str, text: str = "", scope: MemoryScope | None = None) -> str:
        """Do what a proposal says, with another text or scope where these are given; return where it went.

        Raises:
            UsageError: it is gone, or cannot be done; it waits still.
        """

    async def discard(self, proposal_id: str) -> None:
        """Drop a proposal; the same is not proposed again."""

    async def reflect(self) -> int:
        """Read the finished sessions that were not read yet, now; return how many proposals came of it.

        Raises:
            UsageError: no model answers, or reading sessions is off.
        """


def note_lines(notes: Iterable[Note]) -> list[str]:
    """Return notes for people, a line each, with where they apply and come from."""
    return [f"{note.text}  ({note_source(note)})" for note in notes]


def note_source(note: Note) -> str:
    """Return where a note applies and comes from."""
    return " · ".join(filter(None, (SCOPE_NAMES[note.scope], note.source, note.date)))


def proposal_lines(proposal: MemoryProposal) -> list[str]:
    """Return a proposal for people: what it says, where it would go, and what it is made from."""
    about = " · ".join(
        filter(None, (KIND_NAMES[proposal.kind], SCOPE_NAMES[proposal.scope], proposal.source_text, proposal.date))
    )
    text = [sanitize(line) for line in proposal.text.splitlines()] if proposal.kind not in NOTE_KINDS else []
    quotes = [f'  turn {each.turn}, {ORIGIN_NAMES.get(each.origin, each.origin)}: "{each.text}"' for each in proposal.evidence]
    near = [f"  kept already: {each}" for each in proposal.similar]
    return [proposal.claim, f"  {about}", *(f"  | {line}" for line in text), *map(sanitize_line, (*quotes, *near))]
