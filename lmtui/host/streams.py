"""Server-sent events: the blocks of a feed as the body of an answer that ends where the client does not keep up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lmtui.host.feed import EventFeed, Frame, Reader

EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 20.0
HEARTBEAT = b": heartbeat\n\n"
_LAST_WORDS_S = 1.0
ABORT = "lmtui.abort"  # the extension of a scope with which our server drops a connection


async def until_one_ends(*work: Awaitable[object]) -> None:
    """Do some things at once until the first of them ends; then the others are cancelled.  None of their errors rises."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            _ = task.cancel()
        _ = await asyncio.gather(*tasks, return_exceptions=True)


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
        if self._reader is not None:
            drop_when_slow(self._reader, scope)
        try:
            await until_one_ends(self._send(send), _gone(receive))
        finally:
            await self._blocks.aclose()

    async def _send(self, send: Send) -> None:
        async for block in self._blocks:
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def blocks(feed: EventFeed, reader: Reader, past: Iterable[Frame], heartbeat_s: float) -> AsyncGenerator[bytes, None]:
    """Yield the past, then what comes, as one session's stream or that of all; `past` was read when `reader` was opened."""
    try:
        async for frames in reader.follow(past, heartbeat_s):
            yield b"".join(each.block if reader.session_id else each.activity_block for each in frames) or HEARTBEAT
    finally:
        feed.close(reader)
