"""Notes and proposals in memory, as the port says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lmtui.core.errors import UsageError
from lmtui.features.memory.notes import MemoryScope, Note, NoteKind
from lmtui.features.memory.values import Evidence, MemoryProposal, ProposalKind, SearchHit, SearchSource

SESSION = "20260314_120000_abcdef"


def some_proposals() -> list[MemoryProposal]:
    return [
        MemoryProposal(
            "p1", ProposalKind.MISTAKE, "Run tests with pytest -q tests, not make test", session=SESSION, date="2026-03-14",
            evidence=(
                Evidence("use pytest directly, make test also builds the docs", "you", 2),
                Evidence("again: pytest -q tests please", "you", 3),
            ),
            similar=("Tests need Python 3.12 or newer", "Never run make docs without asking"),
            file=".lmagent/memory.md",
        ),
        MemoryProposal(
            "p2", ProposalKind.FACT, "The grammar allows at most 60 nested comments \x1b[2J[red]deep", session=SESSION,
            date="2026-03-13", evidence=(Evidence("implementations allow at most 60 nested comments", "web", 4),),
            file=".lmagent/memory.md",
        ),
        MemoryProposal(
            "p3", ProposalKind.SKILL, '---\nname: release\ndescription: "Tag and publish"\n---\n\n1. Tag it\n2. Push the tag\n',
            MemoryScope.USER, SESSION, "2026-03-01", "release", (Evidence("to release, tag it and push the tag", "you", 7),),
        ),
    ]  # fmt: skip


def some_notes() -> list[Note]:
    return [
        Note("Tests need Python 3.12 or newer", source=SESSION, date="2026-03-11"),
        Note("Never run make docs without asking", source="you", date="2026-03-05", kind=NoteKind.MISTAKE),
        Note("Error messages name line and column, as the style guide of the project wants it in all of its programs"),
        Note("Prefers small commits with an area prefix", MemoryScope.USER, "you", "2026-02-01"),
    ]


class FakeMemory:
    """Implements `WorkspaceMemory`; `problem` is why the next call fails, `missing` its warnings."""

    def __init__(self) -> None:
        self.kept: list[Note] = []
        self.proposed = []
        self.done: list[tuple[object, ...]] = []
        self.problem = ""
        self.missing: Sequence[str] = ()
        self.hits: Sequence[SearchHit] = ()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def search(self, query: str, limit: int = 5, sources: Sequence[SearchSource] = ()) -> Sequence[SearchHit]:
        _ = await self.may_answer.wait()
        return self.hits

    async def sessions_like(self, words: str, most: int) -> dict[str, str]:
        return {hit.place: hit.text for hit in reversed(self.hits)}

    @property
    def proposed(self) -> list[MemoryProposal]:
        return self._proposed

    @proposed.setter
    def proposed(self, proposed: list[MemoryProposal]) -> None:
        self._proposed, self.waiting = proposed, len(proposed)

    async def notes(self) -> Sequence[Note]:
        return list(self.kept)

    async def recall(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("an agent recalls, not a front end")

    async def warnings(self) -> Sequence[str]:
        return self.missing

    async def proposals(self) -> Sequence[MemoryProposal]:
        return list(self.proposed)

    def _do(self, *what: object) -> None:
        if self.problem:
            problem, self.problem = self.problem, ""
            raise UsageError(problem)
        self.done.append(what)

    async def add(self, note: Note) -> bool:
        self._do("add", note)
        self.kept.append(note)
        return True

    async def remove(self, notes: Sequence[Note]) -> None:
        self._do("remove", *notes)
        self.kept = [each for each in self.kept if each not in notes]

    async def change(self, old: Note, new: Note) -> None:
        self._do("change", old, new)
        self.kept[self.kept.index(old)] = new

    async def keep(self, proposal_id: str, text: str = "", scope: MemoryScope | None = None) -> str:
        self._do("keep", proposal_id, text, scope)
        self.proposed = [each for each in self.proposed if each.id != proposal_id]
        return "this folder"

    async def discard(self, proposal_id: str) -> None:
        self._do("discard", proposal_id)
        self.proposed = [each for each in self.proposed if each.id != proposal_id]

    async def reflect(self) -> int:
        self._do("reflect")
        return 0
