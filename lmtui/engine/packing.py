"""Long results that are seldom looked at again, held small: what thousands of steps have read must not fill the memory."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import overload

from lmtui.core.events import Envelope, ToolCallFinished

LONG_CHARS = 2_000
_MOST_LOOSE_CHARS = 4_000_000
_MOST_AT_ONCE = 2


def packed(text: str) -> bytes:
    """Return a text in few bytes."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), 1)


def unpacked(data: bytes) -> str:
    """Return the text that was packed."""
    return zlib.decompress(data).decode("utf-8", "surrogatepass")


class History:
    """The events of a session, oldest first; behind the last few millions of characters, long results are held packed."""

    def __init__(self) -> None:
        self._all: list[Envelope] = []
        self._packed: dict[int, bytes] = {}
        self._loose: deque[int] = deque()
        self._loose_chars = 0

    def add(self, envelope: Envelope) -> None:
        """Add an event."""
        if isinstance(envelope.event, ToolCallFinished) and len(envelope.event.result) >= LONG_CHARS:
            self._loose.append(len(self._all))
            self._loose_chars += len(envelope.event.result)
        self._all.append(envelope)
        for _ in range(_MOST_AT_ONCE):
            if self._loose_chars > _MOST_LOOSE_CHARS:
                self._pack(self._loose.popleft())

    def _pack(self, place: int) -> None:
        envelope = self._all[place]
        assert isinstance(envelope.event, ToolCallFinished)
        self._loose_chars -= len(envelope.event.result)
        self._packed[place] = packed(envelope.event.result)
        self._all[place] = replace(envelope, event=replace(envelope.event, result=""))

    def read(self) -> Sequence[Envelope]:
        """Return what there is now."""
        return Past(tuple(self._all), self._packed.copy()) if self._packed else tuple(self._all)


def bare(history: Sequence[Envelope]) -> Sequence[Envelope]:
    """Return events as they are held: the texts of long results may be empty, and going through them costs nothing."""
    return history.held if isinstance(history, Past) else history


class Past(Sequence[Envelope]):
    """Events of which some are held packed (in `held` without their text); each is whole when it is looked at."""

    def __init__(self, envelopes: Sequence[Envelope], results: Mapping[int, bytes]) -> None:
        self.held = envelopes
        self._results = results

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
        envelope, data = self.held[place], self._results.get(place)
        if data is None or not isinstance(envelope.event, ToolCallFinished):
            return envelope
        return replace(envelope, event=replace(envelope.event, result=unpacked(data)))
