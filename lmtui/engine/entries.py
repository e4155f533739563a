"""What was said in one conversation, whole and in order, with what is asked of it again and again kept beside it.

A step must not cost more because a session is long: nothing here, and nothing that every step or compaction asks, goes over
everything that was ever said.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

from lmtui.core.messages import Message, Role
from lmtui.core.tool_facts import facts_of
from lmtui.engine.packing import LONG_CHARS, packed, unpacked

_MOST_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as it was said.

    `part` names it where it can be folded, left out or pinned.  `title` says in words what it is (`result of read a.py`), and
    `kept` is what stays of it in any case (the user's own words before the files that they mention).  `tool`, `subject` and
    `outcome` are of a result: which tool, about what, and how it ended in a word or two; `files` are those that its call
    changed.  `is_task`: the user said it.
    """

    message: Message
    part: str = ""
    title: str = ""
    kept: str = ""
    tool: str = ""
    subject: str = ""
    outcome: str = ""
    is_ok: bool = True
    is_task: bool = False
    files: tuple[str, ...] = ()


class Entries(Sequence[Entry]):
    """The entries, oldest first; `last_picture` is the place of the last one with pictures, -1 where none has any.

    Long results and arguments that are not sent any more may be held packed; each entry is whole when it is looked at.
    """

    def __init__(self, first: Entry) -> None:
        self._all: list[Entry] = []
        self._packed: dict[int, bytes] = {}
        self._packed_to = 0
        self._tasks: list[int] = []
        self._met: dict[str, int] = {}
        self._places: dict[str, int] = {}
        self.last_picture = -1
        self.add(first)

    def add(self, entry: Entry) -> None:
        """Add what was said next."""
        place = len(self._all)
        self._all.append(entry)
        if entry.is_task:
            self._tasks.append(place)
        if entry.part:
            self._places[entry.part] = place
        if facts_of(entry.tool).meets_file and entry.is_ok:
            self._met.setdefault(entry.subject.partition(" from ")[0], place)
        if entry.message.images:
            self.last_picture = place

    def use_first(self, entry: Entry) -> None:
        """Put another one in the place of the first."""
        self._all[0] = entry

    def cut(self, length: int, kept_from: int) -> None:
        """Forget all behind the first so many; those from a place on are sent again, so they are held at hand."""
        del self._all[length:]
        for place in [place for place in self._packed if place >= kept_from]:
            if place < length:
                self._all[place] = self._whole(place)
            del self._packed[place]
        self._packed_to = min(self._packed_to, kept_from)
        del self._tasks[bisect_left(self._tasks, length) :]
        self._met = {path: place for path, place in self._met.items() if place < length}
        self._places = {part: place for part, place in self._places.items() if place < length}
        if self.last_picture >= length:
            pictures = (place for place in range(length - 1, -1, -1) if self._all[place].message.images)
            self.last_picture = next(pictures, -1)

    def pack(self, end: int, pinned: Container[str]) -> None:
        """Hold some more of the long texts before a place packed: a few at a time, so that nobody waits for it."""
        last = min(end, self._packed_to + _MOST_AT_ONCE)
        for place in range(self._packed_to, last):
            entry = self._all[place]
            parts = (entry.part, *(call.id for call in entry.message.tool_calls))
            if not any(part in pinned for part in parts) and sum(map(len, _texts(entry))) >= LONG_CHARS:
                self._packed[place] = packed(_texts(entry))
                self._all[place] = _with(entry, [""] * len(_texts(entry)))
        self._packed_to = max(self._packed_to, last)

    def unpack(self, part: str) -> None:
        """Hold a result and its call at hand again."""
        place = self._places.get(part)
        for each in () if place is None else {place, self._answer_of(place)} & self._packed.keys():
            self._all[each] = self._whole(each)
            del self._packed[each]

    def find(self, part: str) -> Entry | None:
        """Return what a part names."""
        place = self._places.get(part)
        return None if place is None else self._whole(place)

    def with_parts(self, parts: Iterable[str], end: int) -> list[Entry]:
        """Return what parts name before a place, in order, with the answers that results belong to."""
        places: set[int] = set()
        for place in (self._places.get(part, end) for part in parts):
            if place < end:
                places |= {place, self._answer_of(place)}
        return [self._whole(place) for place in sorted(places)]

    def _answer_of(self, place: int) -> int:
        """Return the place of the answer that a result belongs to; of anything else its own."""
        answer = place
        while self._all[answer].message.role is Role.TOOL:
            answer -= 1
        return answer

    def copy(self) -> Entries:
        """Return what there is now, to be gone through in a thread."""
        copied = Entries(self._all[0])
        copied._all, copied._packed, copied._packed_to = self._all.copy(), self._packed.copy(), self._packed_to
        return copied

    def bare(self, start: int, end: int) -> list[Entry]:
        """Return entries as they are held: long results that went well and long arguments may be empty."""
        return self._all[start:end]

    def _whole(self, place: int) -> Entry:
        entry, data = self._all[place], self._packed.get(place)
        return entry if data is None else _with(entry, unpacked(data))

    @property
    def first_task(self) -> Entry | None:
        """Return what the user said first."""
        return self._all[self._tasks[0]] if self._tasks else None

    def last_task(self, before: int | None = None) -> Entry | None:
        """Return what the user said last before a place."""
        count = len(self._tasks) if before is None else bisect_left(self._tasks, before)
        return self._all[self._tasks[count - 1]] if count else None

    def has_met(self, path: str) -> bool:
        """Tell whether a file was read or written, or came with the user's words."""
        attached = f'<file path="{path}"'
        return path in self._met or any(attached in self._all[place].message.text for place in self._tasks)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._whole, range(len(self._all)))

    @overload
    def __getitem__(self, place: int) -> Entry: ...

    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...

    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        if isinstance(place, slice):
            places = range(*place.indices(len(self._all)))
            return list(map(self._whole, places)) if places and min(places) < self._packed_to else self._all[place]
        return self._whole(place % len(self._all)) if -len(self._all) <= place < len(self._all) else self._all[place]


def _texts(entry: Entry) -> list[str]:
    """Return what may be held packed of an entry: a result that went well, the arguments of calls."""
    if entry.tool:
        return [entry.message.text] if entry.is_ok else []  # what failed is told of until it is mended
    return [call.arguments for call in entry.message.tool_calls]


def _with(entry: Entry, texts: Sequence[str]) -> Entry:
    """Return an entry with other texts in the places of those."""
    if entry.tool:
        return replace(entry, message=replace(entry.message, text=texts[0]))
    calls = zip(entry.message.tool_calls, texts, strict=True)
    return replace(
        entry, message=replace(entry.message, tool_calls=tuple(replace(call, arguments=text) for call, text in calls))
    )
