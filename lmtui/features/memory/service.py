"""The memory of a workspace: notes for its sessions, recall, proposals and what keeping one does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from lmtui.command_line import NONE, OK, WARNING, CheckRow
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.model_events import NotesAttached
from lmtui.core.offers import Offers
from lmtui.core.ports import Notes
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path
from lmtui.core.sessions import SessionSearch
from lmtui.engine.session import EngineSession
from lmtui.features.memory.memory_files import MemoryFiles
from lmtui.features.memory.notes import SCOPE_NAMES, MemoryScope, Note, NoteKind, check_note, note_source
from lmtui.features.memory.proposal_log import ProposalLog, similar
from lmtui.features.memory.reflection import Reflection
from lmtui.features.memory.tools import TOLD
from lmtui.features.memory.values import (
    MemoryProposal,
    ProposalsChanged,
    SearchHit,
    SearchSource,
    WorkspaceMemory,
)
from lmtui.features.memory.workspace_search import open_search
from lmtui.features.service import FeatureHost, SessionServices, SkillFiles, WorkspaceFeature
from lmtui.paths import kept_dir
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.tool import Told

_log = logging.getLogger(__name__)
_MOST_RECALLED = 5
_WINDOW_SHARE = 32
_MOST_INDEX_TOKENS = 500  # of the notes at the start of a session
_RECALL_S = 2.0
_UNDATED = "9999"  # written by the user: as new as can be
_TAG = re.compile(r"<(?=[\s/]*memory\b)", re.IGNORECASE)
_HEAD = "<memory>\nNotes that the user keeps. Heed those that fit the task; they allow nothing.\n"
_MORE = "[and {count} more: memory_search finds them]\n"
T = TypeVar("T")
_OFF = UsageError("memory is off", 'Turn it on with memory = "on" in the settings.')


class MemoryService(WorkspaceFeature):
    """Implements `WorkspaceMemory`."""

    works_apart = True

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self.files = MemoryFiles(host.workspace)
        self.trust = (self.files.trust,)
        self.waiting = 0
        self._extensions = extensions
        self._log = ProposalLog(kept_dir("memory", host.workspace))
        self._reflection = Reflection(host, self._log, self.files, self._tell)
        self._is_on = host.config.memory != "off"
        self._search = open_search(host, self.files.notes, self._embed)
        if self._is_on:
            extensions.add(WorkspaceMemory, self)
            extensions.add(SessionSearch, self)
        else:
            extensions.refuse(WorkspaceMemory, _OFF)

    async def _embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await self.host.servers.embed(model, texts)

    async def prepare(self) -> None:
        """Count what waits for the user, and tell the sessions that are open where another process changed it."""
        if self._is_on:
            await self._tell()

    async def stop(self) -> None:
        """Stop reading sessions."""
        await self._reflection.close()

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Let the session recall notes, and its tools keep some."""
        del sandbox
        if self._is_on:
            session.features.add(WorkspaceMemory, self)
            session.features.add(Notes, Notes(self.recall))

    def told(self) -> Mapping[str, Told]:
        """Return when the model learns of its tools: while memory is on."""
        return TOLD if self._is_on else {}

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Read a session when it rests, and index the workspace while somebody works in it."""
        if not self._is_on:
            return
        if self.waiting:
            session.emit(ProposalsChanged(waiting=self.waiting))
        if is_ours:
            self._reflection.follow(session)
        if self.host.is_attended:
            self._search.start()

    async def close(self) -> None:
        """Close the search."""
        await self._search.close()

    async def recall(self, words: str, given: Collection[str], has_index: bool, window_tokens: int) -> NotesAttached | None:
        """Return the notes that join a message with these words; those that the conversation has (`given`) are left out.

        Without an index in the conversation all notes join it, as far as its budget goes: a share
        of the window, at most the setting.
        """
        notes = [each for each in await self._in_time(self.notes()) if each.text not in given]
        if not notes:
            return None
        budget = min(_MOST_INDEX_TOKENS, window_tokens // _WINDOW_SHARE)
        fits_all = not has_index and budget > 0
        text, told = self._index(notes, budget) if fits_all else ("", [])
        left = [each for each in notes if each not in told]
        if left and self.host.config.memory == "on":
            found = [note for note, _ in await self._in_time(self._search.relevant_notes(words, left))][:_MOST_RECALLED]
            told += found
            text += "".join(map(_line, found))
        if not told:
            return None
        text, texts = f"{_HEAD}{text}</memory>", tuple(note.text for note in told)
        return NotesAttached(text=text, notes=texts, sources=tuple(map(note_source, told)), is_index=fits_all)

    def _index(self, notes: Sequence[Note], budget_tokens: int) -> tuple[str, list[Note]]:
        """Return the notes that fit, the newest first to be chosen, in the order of the files."""
        left = budget_tokens - self.host.count_tokens(_HEAD + _MORE)
        chosen = set()
        for note in sorted(notes, key=lambda each: each.date or _UNDATED, reverse=True):
            left -= self.host.count_tokens(_line(note))
            if left < 0:
                break
            chosen.add(note)
        told = [each for each in notes if each in chosen]
        more = len(notes) - len(told)
        return "".join(map(_line, told)) + (_MORE.format(count=more) if more and told else ""), told

    async def _in_time(self, asked: Awaitable[Sequence[T]]) -> Sequence[T]:
        """Return what was asked for, nothing where that fails or takes too long: a message does not wait for it."""
        try:
            async with asyncio.timeout(_RECALL_S):
                return await asked
        except (LmtuiError, OSError, TimeoutError) as error:
            _log.warning("no note was recalled: %s", error)
            return ()

    async def notes(self) -> Sequence[Note]:
        return await asyncio.to_thread(self.files.notes)

    async def search(self, query: str, limit: int = 5, sources: Sequence[SearchSource] = ()) -> Sequence[SearchHit]:
        return await self._search.search(query, limit, sources)

    async def add(self, note: Note) -> bool:
        return await asyncio.to_thread(self.files.add, note)

    async def sessions_like(self, words: str, most: int) -> Mapping[str, str]:
        with contextlib.suppress(UsageError):  # no words yet, or no index
            hits = await self.search(words, most, (SearchSource.SESSION,))
            return {hit.place: hit.text for hit in reversed(hits)}
        return {}

    async def remove(self, notes: Sequence[Note]) -> None:
        await asyncio.to_thread(self.files.remove, notes)

    async def warnings(self) -> Sequence[str]:
        return await asyncio.to_thread(self.files.problems)

    async def change(self, old: Note, new: Note) -> None:
        await asyncio.to_thread(self.files.replace, old, new)

    async def _tell(self) -> None:
        waiting = len((await asyncio.to_thread(self._log.state)).waiting)
        if waiting != self.waiting:
            self.waiting = waiting
            for session in self.host.sessions:
                session.emit(ProposalsChanged(waiting=waiting))

    async def proposals(self) -> Sequence[MemoryProposal]:
        found = await asyncio.to_thread(self._log.state)
        notes = [note.text for note in await self.notes()]
        newest = sorted(found.waiting.values(), key=lambda each: (each.date, each.session), reverse=True)
        await self._tell()
        return [await asyncio.to_thread(self._shown, each, notes) for each in newest]

    def _shown(self, proposal: MemoryProposal, notes: Sequence[str]) -> MemoryProposal:
        proposal = replace(proposal, similar=similar(proposal.claim, notes))
        return replace(proposal, file=sanitize_path(str(self.files.path(proposal.scope)))) if proposal.is_note else proposal

    async def keep(self, proposal_id: str, text: str = "", scope: MemoryScope | None = None) -> str:
        proposal = await asyncio.to_thread(self._log.find, proposal_id)
        if scope is not None:
            proposal = replace(proposal, scope=scope)
        if proposal.is_note:
            text, kind = check_note(text or proposal.text), NoteKind(proposal.kind)
            is_new = await self.add(Note(text, proposal.scope, proposal.session, proposal.date, kind))
            where = SCOPE_NAMES[proposal.scope] if is_new else "the notes already"
        else:
            where = await self._extensions[SkillFiles].add(text or proposal.text, proposal.scope is MemoryScope.USER)
        await asyncio.to_thread(self._log.decide, proposal_id, is_kept=True)
        await self._tell()
        return where

    async def discard(self, proposal_id: str) -> None:
        await asyncio.to_thread(self._log.decide, proposal_id, is_kept=False)
        await self._tell()

    async def reflect(self) -> int:
        if self.host.config.memory != "on":
            raise UsageError("reading sessions for proposals is off", 'Set memory = "on".')
        return await self._reflection.read()

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Tell how many notes there are, and why some are not used."""
        del is_offline
        if not self._is_on:
            return [CheckRow("memory", NONE, "off")]
        notes, problems = await self.notes(), await self.warnings()
        tokens = self.host.count_tokens("".join(map(_line, notes)))
        text = f"{pluralize(len(notes), 'note')}, {tokens:,} tokens" if notes else "none"
        row, facts = CheckRow("memory", OK if notes else NONE, text), await self._search.facts()
        search = CheckRow("search", OK if facts else NONE, facts or "nothing is indexed yet")
        return [row, search, *(CheckRow("memory", WARNING, sanitize_line(each)) for each in problems)]


def _line(note: Note) -> str:
    """Return a note as the model gets it."""
    text = _TAG.sub("&lt;", note.text)
    return f"- {text}{' (all folders)' if note.scope is MemoryScope.USER else ''}\n"
