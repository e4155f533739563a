"""Framed JSON between lmtui and the supervisor: a 4-byte big-endian length, then one JSON object in UTF-8.

Binary data travels as base64 in its own frames, before the frame that ends a request or a reply.  Both sides use this file;
the side outside treats everything that it decodes as hostile.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

VERSION = 1
MAX_FRAME_BYTES = 1_048_576
CHUNK_BYTES = 262_144
MAX_UPLOAD_BYTES = 10_485_760

TYPE_CHECKING = False  # as in `typing`, which would make each start of a supervisor a tenth slower
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]  # Any: JSON as it came; each reader checks the fields that it uses
else:
    Message = dict


class ProtocolError(Exception):
    """What came is not a frame of this protocol."""


def encode(message: Message, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Return a message as one frame."""
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > max_bytes:
        raise ProtocolError(f"a frame of {len(body)} bytes is over the limit")
    return len(body).to_bytes(4, "big") + body


def data_frames(identity: int, data: bytes) -> Iterator[bytes]:
    """Yield the frames that carry `data` for a request or a reply."""
    for start in range(0, len(data), CHUNK_BYTES):
        yield encode({"id": identity, "data": pack(data[start : start + CHUNK_BYTES])})


def pack(data: bytes) -> str:
    """Return bytes as JSON can carry them."""
    return base64.b64encode(data).decode("ascii")


def unpack(text: str) -> bytes:
    """Return the bytes of a packed text.

    Raises:
        ProtocolError: it is not one.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise ProtocolError("data is not base64") from error


class Decoder:
    """Cuts a stream of bytes into messages."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Take up bytes and return the messages that they complete.

        Raises:
            ProtocolError: an oversized frame, or one that is not a JSON object; the stream cannot be used any more.
        """
        self._buffer += data
        messages: list[Message] = []
        while len(self._buffer) >= 4:
            size = int.from_bytes(self._buffer[:4], "big")
            if size > self._max_bytes:
                raise ProtocolError(f"a frame of {size} bytes is over the limit")
            if len(self._buffer) < 4 + size:
                break
            body = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            messages.append(parse(body))
        return messages


def parse(body: bytes) -> Message:
    """Return the JSON object of a frame or a line.

    Raises:
        ProtocolError: it is none.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a frame is not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("a frame is not an object")
    return message
