"""The proposals of a workspace as front ends see them, and what keeping one does."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.offers import Offers
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.engine.session import EngineSession
from lmtui.features.memory.memory_files import MemoryFiles, with_note
from lmtui.features.memory.proposal_log import ProposalLog, similar
from lmtui.features.memory.reflection import Reflection
from lmtui.features.memory.values import (
    SCOPE_NAMES,
    MemoryProposal,
    MemoryScope,
    Note,
    NoteKind,
    ProposalKind,
    ProposalsChanged,
    WorkspaceMemory,
    check_note,
)
from lmtui.features.service import FeatureHost, SkillFiles
from lmtui.paths import kept_dir
from lmtui.plain_files import NotPlain, read_plain

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
_MAX_BYTES = 262_144
_CONTEXT = 3


class ProposalInbox:
    """What finished sessions taught and the user has not decided about.

    Args:
        host: of the workspace.
        extensions: has the skills that one may join.
        memory: takes the notes that are kept.
        files: those of the notes.
    """

    def __init__(
        self,
        host: FeatureHost,
        extensions: Offers,
        memory: WorkspaceMemory,
        files: MemoryFiles,
    ) -> None:
        self._host, self._extensions, self._memory, self._files = host, extensions, memory, files
        self._inbox = ProposalLog(kept_dir("memory", host.workspace))
        self._reflection = Reflection(host, self._inbox, memory.notes, self._tell)
        self.waiting = 0

    async def prepare(self) -> None:
        """Count what waits."""
        self.waiting = len((await asyncio.to_thread(self._inbox.state)).waiting)

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Tell a session what waits, and read it when it rests."""
        if self.waiting:
            session.emit(ProposalsChanged(waiting=self.waiting))
        if is_ours:
            self._reflection.follow(session)

    def _tell(self) -> None:
        waiting = len(self._inbox.state().waiting)
        if waiting != self.waiting:
            self.waiting = waiting
            for session in self._host.sessions:
                session.emit(ProposalsChanged(waiting=waiting))

    async def listed(self) -> Sequence[MemoryProposal]:
        """Return what waits, the newest first, with the notes near to it and the file as it would be."""
        found = await asyncio.to_thread(self._inbox.state)
        notes = [note.text for note in await self._memory.notes()]
        newest = sorted(found.waiting.values(), key=lambda each: (each.date, each.session), reverse=True)
        shown = [await asyncio.to_thread(self._shown, each, notes) for each in newest]
        self._tell()
        return shown

    def _shown(self, proposal: MemoryProposal, notes: Sequence[str]) -> MemoryProposal:
        near = similar(proposal.claim, notes)
        match proposal.kind:
            case ProposalKind.SKILL:
                return replace(proposal, similar=near)
            case ProposalKind.INSTRUCTIONS:
                with contextlib.suppress(UsageError):  # keeping it says why
                    name, _, text = self._difference(proposal.name)
                    return replace(proposal, similar=near, text=text, file=name, result=text)
                return replace(proposal, similar=near)
            case _:
                file, note = self._files.file(proposal.scope), note_of(proposal)
                old, name = file.read().text, sanitize_line(file.path.name)
                shown = sanitize_path(str(file.path))
                return replace(proposal, similar=near, file=shown, result=unified(name, old, with_note(old, note)))

    def _difference(self, line: str) -> tuple[str, bytes, str]:
        """Return the file that a line of instructions goes to, what is in it, and the difference that the line makes."""
        name, old = self._instructions()
        return name, old, unified(name, *(each.decode("utf-8", "replace") for each in (old, with_line(old, line))))

    def _instructions(self) -> tuple[str, bytes]:
        """Return the file that instructions of the folder go to, and what is in it.

        Raises:
            UsageError: it cannot be added to.
        """
        for name in INSTRUCTION_FILES:
            try:
                data = read_plain(self._host.workspace, name, _MAX_BYTES + 1)
            except NotPlain as why:
                raise UsageError(f"could not read {name}: {why}", "Replace it with a regular file.") from why
            if data is not None:
                if len(data) > _MAX_BYTES or b"\0" in data:
                    raise UsageError(f"{name} is not a text file of at most {_MAX_BYTES:,} bytes", "Shorten it first.")
                return name, data
        return INSTRUCTION_FILES[0], b""

    async def keep(self, proposal_id: str, text: str = "", scope: MemoryScope | None = None) -> str:
        """Do what a proposal says; see `WorkspaceMemory.keep`."""
        proposal = await asyncio.to_thread(self._inbox.find, proposal_id)
        if scope is not None:
            proposal = replace(proposal, scope=scope)
        match proposal.kind:
            case ProposalKind.SKILL:
                add = self._extensions[SkillFiles].add
                where = await add(text or proposal.text, proposal.scope is MemoryScope.USER)
            case ProposalKind.INSTRUCTIONS:
                where = await self._instruct(proposal, text)
            case _:
                note = note_of(proposal, check_note(text or proposal.text))
                is_new = await self._memory.add(note)
                where = SCOPE_NAMES[note.scope] if is_new else "the notes already"
        await asyncio.to_thread(self._inbox.decide, proposal_id, is_kept=True)
        self._tell()
        return where

    async def _instruct(self, proposal: MemoryProposal, text: str) -> str:
        """Add a line to the instructions; `text` is the difference that was shown, or another line."""
        is_line = bool(text) and not text.startswith("--- ")
        line = check_note(text) if is_line else proposal.name
        name, old, difference = await asyncio.to_thread(self._difference, line)
        if not is_line and text != difference:
            raise UsageError(f"{name} has changed since this was proposed", "Look at the proposal again.")
        sha256 = hashlib.sha256(old).hexdigest() if old else ""
        try:
            await (await self._host.sandbox()).write_file(name, with_line(old, line), expect_sha256=sha256)
        except SandboxError as error:
            raise UsageError(f"could not change {name}: {error}", "Look at the proposal again.") from error
        return name

    async def discard(self, proposal_id: str) -> None:
        """Drop a proposal; it is not made again."""
        await asyncio.to_thread(self._inbox.decide, proposal_id, is_kept=False)
        self._tell()

    async def reflect(self) -> int:
        """Read sessions now; see `WorkspaceMemory.reflect`."""
        if self._host.config.memory != "on":
            raise UsageError("reading sessions for proposals is off", 'Set memory = "on".')
        return await self._reflection.read()

    async def close(self) -> None:
        """Stop reading."""
        await self._reflection.close()


def with_line(old: bytes, line: str) -> bytes:
    """Return instructions with a line at their end."""
    head = old or b"# Instructions\n\n"
    return head + (b"" if head.endswith(b"\n") else b"\n") + f"- {line}\n".encode("utf-8", "replace")


def note_of(proposal: MemoryProposal, text: str = "") -> Note:
    """Return the note that a proposal becomes."""
    kind = NoteKind.MISTAKE if proposal.kind is ProposalKind.MISTAKE else NoteKind.FACT
    return Note(text or proposal.text, proposal.scope, proposal.session, proposal.date, kind)


def unified(name: str, old: str, new: str) -> str:
    """Return the difference between two texts of a file."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    lines = difflib.unified_diff(before, after, f"a/{name}" if old else "/dev/null", f"b/{name}", n=_CONTEXT)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
