"""What is long and seldom looked at again, held small: thousands of steps must not fill the memory."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import overload

from lmtui.core.events import Envelope, Event, MessageAdded, ToolCallFinished, ToolCallStarted

LONG_CHARS = 2_000
_MOST_LOOSE_CHARS = 4_000_000
_MOST_AT_ONCE = 2


def packed(texts: Sequence[str]) -> bytes:
    """Return texts in few bytes: their lengths in a line, then all of them."""
    head = " ".join(str(len(text)) for text in texts)
    return zlib.compress(f"{head}\n{''.join(texts)}".encode("utf-8", "surrogatepass"), 1)


def unpacked(data: bytes) -> list[str]:
    """Return the texts that were packed."""
    head, _, rest = zlib.decompress(data).decode("utf-8", "surrogatepass").partition("\n")
    ends = list(accumulate(map(int, head.split())))
    return [rest[start:end] for start, end in pairwise((0, *ends))]


class History:
    """The events of a session, oldest first; behind the last few millions of characters, long ones are held packed.

    Those are results, the arguments of calls, and the answers that hold them.
    """

    def __init__(self) -> None:
        self._all: list[Envelope] = []
        self._packed: dict[int, bytes] = {}
        self._loose: deque[tuple[int, int]] = deque()
        self._loose_chars = 0

    def add(self, envelope: Envelope) -> None:
        """Add an event."""
        size_chars = sum(map(len, _texts(envelope.event)))
        if size_chars >= LONG_CHARS:
            self._loose.append((len(self._all), size_chars))
            self._loose_chars += size_chars
        self._all.append(envelope)
        for _ in range(_MOST_AT_ONCE):
            if self._loose_chars > _MOST_LOOSE_CHARS:
                self._pack(*self._loose.popleft())

    def _pack(self, place: int, size_chars: int) -> None:
        envelope = self._all[place]
        self._loose_chars -= size_chars
        texts = _texts(envelope.event)
        self._packed[place] = packed(texts)
        self._all[place] = replace(envelope, event=_with(envelope.event, [""] * len(texts)))

    def read(self) -> Sequence[Envelope]:
        """Return what there is now."""
        return Past(tuple(self._all), self._packed.copy()) if self._packed else tuple(self._all)


def _texts(event: Event) -> list[str]:
    """Return what may be long in an event."""
    match event:
        case ToolCallFinished(result=result):
            return [result]
        case ToolCallStarted(arguments=arguments):
            return [value for value in arguments.values() if isinstance(value, str)]
        case MessageAdded(tool_calls=calls):
            return [call.arguments for call in calls]
        case _:
            return []


def _with(event: Event, texts: Sequence[str]) -> Event:
    """Return an event with other texts in the places of those that may be long."""
    rest = iter(texts)
    match event:
        case ToolCallFinished():
            return replace(event, result=next(rest))
        case ToolCallStarted(arguments=arguments):
            given = {name: next(rest) if isinstance(value, str) else value for name, value in arguments.items()}
            return replace(event, arguments=given)
        case MessageAdded(tool_calls=calls):
            return replace(event, tool_calls=tuple(replace(call, arguments=next(rest)) for call in calls))
        case _:
            return event


def bare(history: Sequence[Envelope]) -> Sequence[Envelope]:
    """Return events as they are held: long results and arguments may be empty, and going through them costs nothing."""
    return history.held if isinstance(history, Past) else history


class Past(Sequence[Envelope]):
    """Events of which some are held packed (in `held` without what is long); each is whole when it is looked at."""

    def __init__(self, envelopes: Sequence[Envelope], packed_events: Mapping[int, bytes]) -> None:
        self.held = envelopes
        self._packed = packed_events

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Envelope]:
        return map(self._whole, range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Envelope: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Envelope, ...]: ...

    def __getitem__(self, place: int | slice) -> Envelope | tuple[Envelope, ...]:
        if isinstance(place, slice):
            return tuple(map(self._whole, range(*place.indices(len(self)))))
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return self._whole(place % len(self))

    def _whole(self, place: int) -> Envelope:
        envelope, data = self.held[place], self._packed.get(place)
        return envelope if data is None else replace(envelope, event=_with(envelope.event, unpacked(data)))
