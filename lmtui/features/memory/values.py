"""What a search found, proposals that wait for the user, and the memory of a workspace as others see it.  No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Protocol

from lmtui.core.events import Event
from lmtui.core.remote_marks import open_to_network
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.features.memory.notes import SCOPE_NAMES, MemoryScope, Note

NO_PROPOSALS = "No proposals yet. Notes from finished sessions appear here; nothing is remembered until you keep it."
_DESCRIPTION = re.compile(r"^description: *(.+)$", re.MULTILINE)


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


# Whose words they are, those first that are trusted most.
ORIGIN_NAMES = {
    "you": "you", "model": "the agent's answer", "tool": "tool output", "mcp": "an MCP server", "web": "a web page",
}  # fmt: skip
KIND_NAMES = {"fact": "Fact", "mistake": "Correction", "skill": "Skill"}


class ProposalKind(StrEnum):
    """What a proposal would become."""

    FACT = "fact"
    MISTAKE = "mistake"
    SKILL = "skill"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was said or done in a session that a proposal is made from; `turn` counts from 1.

    `origin` is `you`, `model`, `tool`, `web` or `mcp`: only what the user said can become a
    correction or a skill.
    """

    text: str
    origin: str = "you"
    turn: int = 0

    @property
    def speaker(self) -> str:
        """Return in words whose it is."""
        return ORIGIN_NAMES.get(self.origin, self.origin)


@dataclass(frozen=True, slots=True)
class MemoryProposal:
    """Something that a finished session taught, which the user has not decided about.

    `text` is the line of a note or a whole SKILL.md, by `kind`; `name` is that of the skill.
    `similar` are notes that are kept already and say much the same; `file` is where it would go.
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
    def is_note(self) -> bool:
        """Tell whether it becomes a note."""
        return self.kind is not ProposalKind.SKILL

    @property
    def claim(self) -> str:
        """Return in a line what it says."""
        if self.is_note:
            return sanitize_line(self.text)
        about = _DESCRIPTION.search(self.text)
        return sanitize_line(f"{self.name}: {about[1].strip(chr(34))}" if about is not None else self.name)

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

    async def warnings(self) -> Sequence[str]:
        """Return why notes are missing, all or some, in words for the user."""

    async def remove(self, notes: Sequence[Note]) -> None:
        """Take out these notes; nothing where they are gone.

        Raises:
            UsageError: the folder's memory is not trusted, or the file cannot be written.
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


def proposal_lines(proposal: MemoryProposal) -> list[str]:
    """Return a proposal for people: what it says, where it would go, and what it is made from."""
    facts = KIND_NAMES[proposal.kind], SCOPE_NAMES[proposal.scope], proposal.source_text, proposal.date
    text = [sanitize(line) for line in proposal.text.splitlines()] if not proposal.is_note else []
    quotes = [f'  turn {each.turn}, {each.speaker}: "{each.text}"' for each in proposal.evidence]
    near = [f"  kept already: {each}" for each in proposal.similar]
    about = " · ".join(filter(None, facts))
    return [proposal.claim, f"  {about}", *(f"  | {line}" for line in text), *map(sanitize_line, (*quotes, *near))]
