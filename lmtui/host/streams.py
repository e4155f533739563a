"""Server-sent events: the blocks of a feed as the body of an answer that ends where the client does not keep up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lmtui.core.sessions import Session
from lmtui.host.feed import EventFeed, Frame, Reader, past

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 20.0
GATHER_S = 0.02  # what happens within it is sent at once
HEARTBEAT = b": heartbeat\n\n"
_LAST_WORDS_S = 1.0
ABORT = "lmtui.abort"  # the extension of a scope with which our server drops a connection


def drop_when_slow(reader: Reader, scope: Scope) -> None:
    """Drop the connection of a client whose queue has overflowed: in a second at the latest, whatever it was sent."""
    if (abort := scope.get("extensions", {}).get(ABORT)) is not None:
        reader.when_overflowed = partial(asyncio.get_running_loop().call_later, _LAST_WORDS_S, abort)


class EventStream(Response):
    """An answer whose body comes from a generator; it ends when the client goes, or `reader` overflows.

    A client that does not take what was sent is dropped a second after its queue has overflowed.
    """

    media_type = EVENT_STREAM

    def __init__(
        self, blocks: AsyncGenerator[bytes, None], reader: Reader | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(headers={"x-accel-buffering": "no", "connection": "close", **(headers or {})})
        del self.headers["content-length"]
        self._blocks = blocks
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the blocks as they come."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_gone(receive))
        if self._reader is not None:
            drop_when_slow(self._reader, scope)
        try:
            _ = await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                _ = task.cancel()
            _ = await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._blocks.aclose()

    async def _send(self, send: Send) -> None:
        async for block in self._blocks:
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def session_blocks(
    feed: EventFeed, reader: Reader, session: Session, after: int, heartbeat_s: float
) -> AsyncGenerator[bytes, None]:
    """Yield what the log has behind an event, then what comes; `reader` was opened in the same step as this was called."""
    try:
        history = session.history()
        last = min(after, history[-1].seq if history else 0)
        async for block, seq in past(session, after):
            yield block
            last = seq
        async for frames in _frames(reader, heartbeat_s):
            news = [frame for frame in frames if frame.envelope.seq > last]
            if news or not frames:
                yield b"".join(frame.block for frame in news) or HEARTBEAT
    finally:
        feed.close(reader)


async def activity_blocks(
    feed: EventFeed, reader: Reader, begun: list[Frame], heartbeat_s: float
) -> AsyncGenerator[bytes, None]:
    """Yield the last events of all sessions, then what comes."""
    try:
        if begun:
            yield b"".join(frame.activity_block for frame in begun)
        async for frames in _frames(reader, heartbeat_s):
            yield b"".join(frame.activity_block for frame in frames) or HEARTBEAT
    finally:
        feed.close(reader)


async def _frames(reader: Reader, heartbeat_s: float) -> AsyncGenerator[list[Frame], None]:
    """Yield events as they come, and none where there were none for so long."""
    while not reader.is_over:
        if not await reader.wait(heartbeat_s):
            yield []
            continue
        await asyncio.sleep(GATHER_S)
        if frames := reader.take():
            yield frames
