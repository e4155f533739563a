"""A supervisor in a container, reached through the engine's attach stream: asyncio on the engine's own socket, no threads.

The stream is the engine API's "attach" with stdout and stderr multiplexed: an 8-byte header (kind, three zeros, big-endian
length) before each piece.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from lmtui.core.clean import clean_line

_BUFFER_BYTES = 2_097_152
_PIECE_BYTES = 262_144
_STDOUT = 1
_DIAGNOSIS_BYTES = 4096
_ANSWER_S = 10.0
_MAX_HEADER_BYTES = 16_384


class ContainerLink:
    """The attached streams of one container."""

    def __init__(self, raw: asyncio.StreamReader, writer: asyncio.StreamWriter, remove: Callable[[], Awaitable[None]]) -> None:
        self.reader = asyncio.StreamReader(limit=_BUFFER_BYTES)
        self._writer = writer
        self._remove = remove
        self._tail = bytearray()
        self._pumping = asyncio.create_task(self._pump(raw))
        self._is_closed = False

    def write(self, data: bytes) -> None:
        """Send bytes; those that it does not take yet are kept."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until it took most of what was sent."""
        await self._writer.drain()

    def diagnosis(self) -> str:
        """Return the last of what it said beside the frames, on one line."""
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return clean_line(lines[-1]) if lines else ""

    async def close(self) -> None:
        """Close its input, which ends it, and see that the container is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        self._pumping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pumping
        await self._remove()

    async def _pump(self, raw: asyncio.StreamReader) -> None:
        try:
            while True:
                header = await raw.readexactly(8)
                left = int.from_bytes(header[4:], "big")
                while left:
                    piece = await raw.read(min(left, _PIECE_BYTES))
                    if not piece:
                        return
                    left -= len(piece)
                    self._take(header[0], piece)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the container is gone: the end of the stream says so
        finally:
            self.reader.feed_eof()

    def _take(self, kind: int, piece: bytes) -> None:
        if kind == _STDOUT:
            self.reader.feed_data(piece)
        else:
            self._tail += piece
            del self._tail[:-_DIAGNOSIS_BYTES]


async def attach(socket_path: str, container_id: str, remove: Callable[[], Awaitable[None]]) -> ContainerLink:
    """Attach to a container that was created but not started yet.

    Raises:
        OSError: the engine does not answer or refuses.
    """
    raw, writer = await asyncio.open_unix_connection(socket_path, limit=_BUFFER_BYTES)
    target = f"/containers/{container_id}/attach?stream=1&stdin=1&stdout=1&stderr=1"
    request = f"POST {target} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
    writer.write(request.encode("ascii"))
    try:
        async with asyncio.timeout(_ANSWER_S):
            answer = await raw.readuntil(b"\r\n\r\n")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise OSError("the engine does not answer to attach") from error
    except BaseException:
        writer.close()
        raise
    status = answer[:_MAX_HEADER_BYTES].split(b" ", 2)[1:2]
    if status not in ([b"101"], [b"200"]):
        writer.close()
        raise OSError(f"the engine refuses to attach: {clean_line(answer.splitlines()[0].decode('latin-1'))}")
    return ContainerLink(raw, writer, remove)
