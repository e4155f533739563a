"""Events of all open sessions on their way to clients: each is encoded once, each client has a bounded queue.

The engine is never slowed down: a client that does not keep up loses its stream and resumes from the log.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from pathlib import Path

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lmtui.app.host import encode_event
from lmtui.core.events import Envelope
from lmtui.core.sessions import Session
from lmtui.host.hub import SessionHub

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 20.0
HEARTBEAT = b": heartbeat\n\n"
ABORT = "lmtui.abort"  # the extension of a scope with which our server drops a connection
_GATHER_S = 0.02  # what happens within it is sent at once
_LAST_WORDS_S = 1.0
RING = 200
NOTHING = "-"  # in place of a session for a client that follows none yet
MOST_BYTES = 4_000_000
_AT_ONCE = 64
_SENT_AT_ONCE_BYTES = 65_536


@dataclass(eq=False)
class Frame:
    """An event, encoded when the first client takes it.

    Args:
        is_stored: it is in the log; only such an event has an id in the stream of its session.
    """

    envelope: Envelope
    _: KW_ONLY
    is_stored: bool

    @cached_property
    def rest(self) -> bytes:
        """Return the block of a stream without its id; its data is the line of the log."""
        line = encode_event(self.envelope).encode("utf-8", "backslashreplace")
        return b"event: %s\ndata: %s\n\n" % (self.envelope.event.kind.encode(), line)

    @property
    def activity_id(self) -> str:
        """Return its id among the events of all sessions."""
        return f"{self.envelope.session}:{self.envelope.seq}"

    def block(self, *, is_activity: bool = False) -> bytes:
        """Return the block of the session's own stream, or of that of all sessions."""
        own = str(self.envelope.seq) if self.is_stored else ""
        event_id = self.activity_id if is_activity else own
        return b"id: %s\n%s" % (event_id.encode(), self.rest) if event_id else self.rest


class Reader:
    """The queue of one client.

    Args:
        session_id: the session that it follows, empty for all.
    """

    def __init__(self, session_id: str = "", *, most_bytes: int = MOST_BYTES) -> None:
        self.session_id = session_id
        self._most_bytes = most_bytes
        self._frames: deque[Frame] = deque()
        self._size_bytes = 0
        self._has_news = asyncio.Event()
        self.is_over = False
        self.has_overflowed = False
        self.when_overflowed: Callable[[], object] = lambda: None

    def put(self, frame: Frame) -> None:
        """Take an event; the stream ends if the queue is full."""
        if self.is_over:
            return
        self._frames.append(frame)
        self._size_bytes += len(frame.rest)
        if self._size_bytes > self._most_bytes:
            self.has_overflowed = True
            self.end()
            _ = self.when_overflowed()
            return
        self._has_news.set()

    def end(self) -> None:
        """End the stream; what is queued and not sent is dropped."""
        self.is_over = True
        self._frames.clear()
        self._has_news.set()

    async def follow(self, past: Iterable[Frame], heartbeat_s: float) -> AsyncGenerator[list[Frame], None]:
        """Yield the past, then what comes, and none where there were none for so long; the loop is free in between."""
        before = iter(past)
        while frames := list(itertools.islice(before, _AT_ONCE)):
            yield frames
            await asyncio.sleep(0)
        while not self.is_over:
            if not self._frames:
                self._has_news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(heartbeat_s):
                        _ = await self._has_news.wait()
            if self._frames:
                await asyncio.sleep(_GATHER_S)
            if (frames := self.take()) or not self.is_over:
                yield frames

    def take(self) -> list[Frame]:
        """Return some events that are waiting, at most as many as are sent at once."""
        taken: list[Frame] = []
        size = 0
        while self._frames and size < _SENT_AT_ONCE_BYTES:
            frame = self._frames.popleft()
            size += len(frame.rest)
            taken.append(frame)
        self._size_bytes -= size
        return taken


class EventFeed:
    """Takes each event of a hub to those who read it, and keeps the last ones of all sessions."""

    def __init__(self, hub: SessionHub) -> None:
        self._hub = hub
        self._readers: list[Reader] = []
        self._ring: deque[Frame] = deque(maxlen=RING)
        self._is_closed = False

    def take(self, folder: Path, envelope: Envelope) -> None:
        """Pass an event on; the listener of a hub."""
        del folder
        is_durable = envelope.event.durable
        wanted = ("", envelope.session) if is_durable else (envelope.session,)
        readers = [reader for reader in self._readers if reader.session_id in wanted]
        frame = Frame(envelope, is_stored=is_durable and bool(readers) and self._is_stored(envelope))
        if is_durable:
            self._ring.append(frame)
        for reader in readers:
            reader.put(frame)

    def _is_stored(self, envelope: Envelope) -> bool:
        """Tell whether an event that was just published is in the log: one that could not be written was published too."""
        session = self._hub.find(envelope.session)
        history = session.history() if session is not None else ()
        return bool(history) and history[-1].seq == envelope.seq

    def open(self, session_id: str = "", scope: Scope | None = None) -> Reader:
        """Return a queue that gets the events from now on; `close` ends it.

        Where a client does not take what it is sent, the connection of `scope` is dropped a second
        after the queue has overflowed.
        """
        reader = Reader(session_id)
        if scope is not None and (abort := scope.get("extensions", {}).get(ABORT)) is not None:
            reader.when_overflowed = partial(asyncio.get_running_loop().call_later, _LAST_WORDS_S, abort)
        if self._is_closed:
            reader.end()
        else:
            self._readers.append(reader)
            if session_id not in ("", NOTHING):
                self._hub.watch(session_id)
        return reader

    def close(self, reader: Reader) -> None:
        """Give nothing more to a queue."""
        reader.end()
        if reader in self._readers:
            self._readers.remove(reader)
            if reader.session_id not in ("", NOTHING):
                self._hub.unwatch(reader.session_id)

    def recent(self, limit: int, after: str = "") -> Sequence[Frame]:
        """Return the last events of all sessions, the oldest first; with the id of one, those that came behind it."""
        frames = list(self._ring)
        places = [place for place, frame in enumerate(frames) if after and frame.activity_id == after]
        return frames[places[-1] + 1 :] if places else frames[-limit:] if limit else ()

    def end(self) -> None:
        """End every stream; there will be no more."""
        self._is_closed = True
        for reader in tuple(self._readers):
            self.close(reader)


def place_behind(history: Sequence[Envelope], seq: int) -> int:
    """Return the index of the first event behind another."""
    return bisect.bisect(history, seq, key=lambda each: each.seq)


def stored(session: Session, after: int) -> Iterator[Frame]:
    """Return the events behind another that are stored now."""
    history = session.history()
    return (Frame(each, is_stored=True) for each in history[place_behind(history, after) :])


async def until_one_ends(*work: Awaitable[object]) -> None:
    """Do some things at once until one ends, and cancel the others.  No error of theirs rises."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            _ = task.cancel()
        _ = await asyncio.gather(*tasks, return_exceptions=True)


class EventStream(StreamingResponse):
    """An answer whose body comes from a generator; it ends when that does, or the client goes."""

    media_type = EVENT_STREAM

    def __init__(self, blocks: AsyncGenerator[bytes, None], headers: dict[str, str] | None = None) -> None:
        super().__init__(blocks, headers={"x-accel-buffering": "no", "connection": "close", **(headers or {})})
        self._blocks = blocks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the blocks as they come."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._blocks.aclose()


async def blocks(feed: EventFeed, reader: Reader, past: Iterable[Frame], heartbeat_s: float) -> AsyncGenerator[bytes, None]:
    """Yield the past and what comes, for the stream of one session or of all.

    `past` was read in the step in which `reader` was opened.
    """
    try:
        async for frames in reader.follow(past, heartbeat_s):
            yield b"".join(each.block(is_activity=not reader.session_id) for each in frames) or HEARTBEAT
    finally:
        feed.close(reader)
