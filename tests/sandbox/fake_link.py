"""A link whose other end is played by the test."""

from __future__ import annotations

import asyncio

from lmtui.sandbox.guest import protocol
from lmtui.sandbox.supervisor_client import Link


class FakeLink(Link):
    """Keeps what is written and lets the test feed what is read."""

    def __init__(self) -> None:
        self.reader, self.network = asyncio.StreamReader(), str
        self.is_closed = False
        self.requests: asyncio.Queue[protocol.Message] = asyncio.Queue()
        self._decoder = protocol.Decoder()

    def write(self, data: bytes) -> None:
        """Take up what the client sends."""
        for message in self._decoder.feed(data):
            self.requests.put_nowait(message)

    async def drain(self) -> None:
        """Everything was taken already."""

    def diagnosis(self) -> str:
        """Return what the supervisor said beside the frames."""
        return ""

    async def close(self) -> None:
        """End the stream."""
        self.is_closed = True
        self.reader.feed_eof()

    def say(self, message: protocol.Message) -> None:
        """Send a frame to the client."""
        self.reader.feed_data(protocol.encode(message))

    def greet(self) -> None:
        """Send the greeting that a supervisor starts with."""
        self.say({"hello": protocol.VERSION, "pid": 1, "python": "3"})
