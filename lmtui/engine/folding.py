"""How a conversation is sent: what is left out, folded, pinned, and which beginning a summary stands for.

Built from events alone, like the conversation itself.  What was said is never lost: a rewind or the user brings it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lmtui.core.messages import Message, Role
from lmtui.core.model_events import BroughtBack, Compacted, Pinned
from lmtui.core.window import bytes_by_four
from lmtui.engine.entries import Entries, Entry
from lmtui.engine.excerpts import decisive
from lmtui.engine.old_calls import in_short

FOLDED_CHARS = 600
_FIRST = 1


class Folding:
    """What the events of one conversation say about how it is sent."""

    def __init__(self) -> None:
        self.elided: set[str] = set()
        self.folded: set[str] = set()
        self.pinned: set[str] = set()
        self._cuts: list[tuple[int, str]] = []
        self._shown: dict[tuple[str, bool], Message] = {}

    @property
    def kept_from(self) -> int:
        """Return the place of the first message that is sent as it was said, 0 where nothing was summed up."""
        return self._cuts[-1][0] if self._cuts else 0

    @property
    def summary(self) -> str:
        """Return what stands for what was summed up."""
        return self._cuts[-1][1] if self._cuts else ""

    def apply(self, event: Compacted | BroughtBack | Pinned) -> None:
        """Take up a change."""
        match event:
            case Compacted():
                self.elided.update(event.elided)
                self.folded.update(event.folded)
                if event.kept_from > self.kept_from:
                    self._cuts.append((event.kept_from, event.summary))
            case BroughtBack():
                self.elided.difference_update(event.parts)
                self.folded.difference_update(event.parts)
            case Pinned():
                (self.pinned.add if event.is_pinned else self.pinned.discard)(event.part)

    def rewound(self, length: int) -> None:
        """Forget the cuts behind the end of a conversation that was rewound: what they summed up is sent again."""
        self._cuts = [cut for cut in self._cuts if cut[0] <= length]

    def shown(self, entry: Entry) -> Message:
        """Return a message as it is sent, as long as it is not summed up."""
        if entry.part and (entry.part in self.elided or entry.part in self.folded):
            return self.shortened(entry, is_folded=entry.part not in self.elided)
        return entry.message

    def shortened(self, entry: Entry, *, is_folded: bool = False) -> Message:
        """Return a message with only its beginning, or only a line, in its place; always the same object for the same one.

        Of a failure what decides it stays, its end before all; of an answer only the arguments of its calls become shorter.
        """
        key = (entry.part, is_folded)
        if key not in self._shown:
            self._shown[key] = _short(entry, is_folded=is_folded)
        return self._shown[key]

    def sent(self, entries: Entries) -> list[Message]:
        """Return the messages of the next request."""
        if not self._cuts:
            return [self.shown(entry) for entry in entries]
        kept_from, summary = self._cuts[-1]
        task = entries.first_task
        if task is not None and entries.last_task(kept_from) is None:  # it was said behind the cut
            task = None
        said = self.shown(task) if task else Message(Role.USER, "")
        last = last_said(entries, kept_from)
        words = f"[The user said last:]\n{self.shown(last).text}" if last else ""
        told = replace(said, text="\n\n".join(part for part in (said.text, summary, words) if part))
        begun = entries.with_parts(self.pinned, kept_from)
        pinned = [message for entry in begun if entry is not task for message in self._pinned(entry)]
        return [entries[0].message, told, *pinned, *(self.shown(entry) for entry in entries[kept_from:])]

    def _pinned(self, entry: Entry) -> list[Message]:
        """Return what is kept of a message that was summed up: pinned ones, with the calls that pinned results belong to."""
        message = entry.message
        if message.role is Role.ASSISTANT:
            calls = tuple(call for call in message.tool_calls if call.id in self.pinned)
            return [replace(message, text="", thinking="", tool_calls=calls)] if calls else []
        return [message] if entry.part in self.pinned else []


def last_said(entries: Entries, place: int) -> Entry | None:
    """Return what the user said last before a place; None where it is the first task, which stays anyway."""
    last = entries.last_task(place)
    return last if last is not entries.first_task else None


def _short(entry: Entry, *, is_folded: bool) -> Message:
    message = entry.message
    if message.role is Role.ASSISTANT:
        return replace(message, tool_calls=tuple(map(in_short, message.tool_calls)))
    return replace(message, text=_folded_text(entry) if is_folded else _line(entry), images=())


def _folded_text(entry: Entry) -> str:
    text = entry.message.text.removeprefix(entry.kept)
    if entry.tool and not entry.is_ok:
        return decisive(text, FOLDED_CHARS)
    beginning = text[:FOLDED_CHARS].rpartition("\n")[0] or text[:FOLDED_CHARS]
    rest = bytes_by_four(text[len(beginning) :])
    return f"{entry.kept}{beginning}\n[the rest of the {entry.title or 'this'}, {rest:,} tokens, left out{_way_back(entry)}]"


def _line(entry: Entry) -> str:
    size = bytes_by_four(entry.message.text.removeprefix(entry.kept))
    ended = f", {entry.outcome or 'failed'}" if entry.tool and not entry.is_ok else ""
    line = f"[{entry.title or 'this'}{ended}, {size:,} tokens, left out{_way_back(entry)}]"
    return f"{entry.kept}\n\n{line}" if entry.kept else line


def _way_back(entry: Entry) -> str:
    """Return how the model gets again what was left out; a change is not to be made twice for it."""
    match entry.tool:
        case "":
            return ""
        case "read":
            return "; read it again if you need it"
        case "write" | "edit":
            return "; the file has it" if entry.is_ok else ""
        case _:
            return "; call it again if you need it"


def cut_places(entries: Sequence[Entry], kept_from: int) -> list[int]:
    """Return the places from which a conversation may be kept, the last of them behind its last step.

    At none of them a result loses its call or a call its result.
    """
    last = len(entries)
    while last and entries[last - 1].message.role is Role.USER:
        last -= 1
    places = range(max(kept_from, 1) + 1, last + 1)
    return [place for place in places if place == len(entries) or entries[place].message.role is not Role.TOOL]
