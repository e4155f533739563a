"""The inbox of a workspace's memory: what was proposed, what the user decided, and how far sessions were read.

It is a file of JSON lines at user level that only grows; what two processes write does not mix, and
a torn line is passed over.  All methods block (disk).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lmtui.core.errors import UsageError
from lmtui.features.memory.notes import note_key
from lmtui.features.memory.values import MemoryProposal
from lmtui.plain_files import open_own
from lmtui.store.state_files import locked

FILE, LOCK = "inbox.jsonl", "reading.lock"
MOST_WAITING = 200
_ALIKE, _WITHIN, _LEAST_WITHIN = 0.7, 0.9, 4
_MOST_SIMILAR, _SIMILAR = 3, 0.25
_TOKEN = re.compile(r"[^\W_]+(?:['’]t)?|[,.;:!?]")
_ENDING = re.compile(r"(?<=...)(?:ing|ed|es|s)\Z")
_NEGATIONS = frozenset({"not", "never", "no", "without", "instead", "rather", "don't", "dont", "avoid", "doesn't", "isn't"})
_CLAUSE_ENDS = frozenset({",", ".", ";", ":", "!", "?", "but"})
_SMALL = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "is", "are", "was", "were", "be", "been", "to", "of", "in", "on", "at",
    "for", "with", "and", "or", "as", "it", "its", "we", "you", "i", "my", "our", "your", "please", "always", "should", "must",
    "will", "can", "use", "used", "using", "do", "does", "than", "when", "all",
})  # fmt: skip


def meaning(text: str) -> frozenset[str]:
    """Return the words that make a statement, without endings; those behind a negation are marked, up to the clause's end."""
    found: set[str] = set()
    is_negated = False
    for word in _TOKEN.findall(text.casefold().replace("’", "'")):
        if word in _NEGATIONS:
            is_negated = True
        elif word in _CLAUSE_ENDS:
            is_negated = False
        elif word not in _SMALL:
            found.add(("!" if is_negated else "") + _ENDING.sub("", word))
    return frozenset(found)


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of the words of two statements that both have, 0 to 1."""
    return len(one & other) / len(one | other) if one and other else 0.0


def says_same(one: str, other: str) -> bool:
    """Tell whether two statements say the same in about the same words, or all of the first is said by the second."""
    first, second = meaning(one), meaning(other)
    if note_key(one) == note_key(other) or overlap(first, second) >= _ALIKE:
        return True
    return len(first) >= _LEAST_WITHIN and len(first & second) / len(first) >= _WITHIN


def similar(text: str, notes: Iterable[str]) -> tuple[str, ...]:
    """Return the notes that are about the same, the nearest first."""
    words = meaning(text)
    found = sorted(((overlap(words, meaning(note)), note) for note in notes), reverse=True)
    return tuple(note for share, note in found[:_MOST_SIMILAR] if share >= _SIMILAR)


def _repeats(new: MemoryProposal, old: MemoryProposal) -> bool:
    """Tell whether a proposal was made before: in the same words, under the same name, or from the same quote."""
    if new.is_note is not old.is_note:
        return False
    is_same = says_same(new.text, old.text) if new.is_note else note_key(new.name) == note_key(old.name)
    return is_same or (new.session == old.session and _share_quote(new, old))


def _share_quote(one: MemoryProposal, other: MemoryProposal) -> bool:
    quotes = [[note_key(each.text) for each in proposal.evidence] for proposal in (one, other)]
    return any(a in b or b in a for a in quotes[0] for b in quotes[1] if a and b)


@dataclass(frozen=True, slots=True)
class ReadMark:
    """How far a session was read: its log had `size` bytes, and everything up to the event `seq` counts as read."""

    session: str
    size: int
    seq: int


@dataclass(slots=True)
class ProposalState:
    """What the lines of an inbox come to; `waiting` is in the order in which it was proposed."""

    waiting: dict[str, MemoryProposal] = field(default_factory=dict)
    kept: dict[str, MemoryProposal] = field(default_factory=dict)
    discarded: dict[str, MemoryProposal] = field(default_factory=dict)
    read: dict[str, ReadMark] = field(default_factory=dict)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take up one line."""
        match line.get("do"):
            case "proposed":
                proposal = _PROPOSAL.validate_python(line["proposal"])
                if proposal.id not in self.kept and proposal.id not in self.discarded:
                    self.waiting[proposal.id] = proposal
            case "kept" | "discarded" as done if line["id"] in self.waiting:
                (self.kept if done == "kept" else self.discarded)[line["id"]] = self.waiting.pop(line["id"])
            case "read":
                mark = _MARK.validate_python(line["mark"])
                self.read[mark.session] = mark

    def is_known(self, proposal: MemoryProposal, notes: Iterable[str]) -> bool:
        """Tell whether something was proposed before, or is a note already."""
        if proposal.is_note and any(says_same(proposal.text, note) for note in notes):
            return True
        known = (*self.discarded.values(), *self.waiting.values(), *self.kept.values())
        return any(_repeats(proposal, old) for old in known)


_PROPOSAL: TypeAdapter[MemoryProposal] = TypeAdapter(MemoryProposal)
_MARK: TypeAdapter[ReadMark] = TypeAdapter(ReadMark)


def proposal_id(proposal: MemoryProposal) -> str:
    """Return an id that is the same for the same."""
    text = "\0".join((proposal.kind, proposal.session, note_key(proposal.claim) or proposal.text))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class ProposalLog:
    """The inbox in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE

    def state(self) -> ProposalState:
        """Return what is there now; nothing where the file cannot be read."""
        try:
            with open(self._file, "rb", opener=open_own) as file:
                return _parsed(file.read())
        except OSError:
            return ProposalState()

    def propose(
        self, found: Sequence[MemoryProposal], notes: Sequence[str] = (), mark: ReadMark | None = None
    ) -> Sequence[MemoryProposal]:
        """Add what was not proposed, decided or noted before, and with it how far its session was read; return what is new.

        Raises:
            UsageError: the file cannot be written.
        """
        with self._changing() as (state, lines):
            added: dict[str, MemoryProposal] = {}
            for each in found:
                proposal = replace(each, id=proposal_id(each))
                if state.is_known(proposal, notes) or len(state.waiting) >= MOST_WAITING:
                    continue
                added[proposal.id] = state.waiting[proposal.id] = proposal
            lines.extend([{"do": "proposed", "proposal": _PROPOSAL.dump_python(each, mode="json")} for each in added.values()])
            lines.extend([{"do": "read", "mark": asdict(mark)}] if mark is not None else [])
        return tuple(added.values())

    def find(self, proposal_id: str) -> MemoryProposal:
        """Return what waits under an id.

        Raises:
            UsageError: nothing does.
        """
        found = self.state().waiting.get(proposal_id)
        if found is None:
            raise UsageError("this proposal has already been decided", "Look at /memory again.")
        return found

    def decide(self, proposal_id: str, *, is_kept: bool) -> None:
        """Take a proposal out of the inbox for good; one that is gone already stays gone.  Raises `UsageError`."""
        with self._changing() as (_, lines):
            lines.append({"do": "kept" if is_kept else "discarded", "id": proposal_id})

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the right to read sessions.

        Raises:
            UsageError: another process has it, or the lock cannot be made.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(locked(self._folder / LOCK, waits=False))
            except BlockingIOError as error:
                raise UsageError("another lmtui is reading the sessions of this folder", "Wait until it is done.") from error
            except OSError as error:
                raise _unwritable(self._folder, error) from error
            yield

    @contextlib.contextmanager
    def _changing(self) -> Iterator[tuple[ProposalState, list[Mapping[str, Any]]]]:  # Any: JSON
        """Hold the file; the lines that are put into the list are written behind what is there, maybe half a line."""
        lines: list[Mapping[str, Any]] = []  # Any: JSON
        try:
            with locked(self._folder / "inbox.lock"), open(self._file, "a+b", opener=open_own) as file:
                file.seek(0)
                data = file.read()
                yield _parsed(data), lines
                text = "".join(f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n" for line in lines)
                file.write((b"\n" if data and not data.endswith(b"\n") else b"") + text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise _unwritable(self._folder, error) from error


def _parsed(data: bytes) -> ProposalState:
    state = ProposalState()
    for line in data.splitlines():
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError, ValidationError):
            state.take(json.loads(line))
    return state


def _unwritable(folder: Path, error: OSError) -> UsageError:
    hint = "Check permissions and free disk space."
    return UsageError(f"could not write the memory inbox in {folder}: {error.strerror}", hint)
