"""The two pipes to the editor: one JSON-RPC message a line, read and written in threads so that no pipe blocks the loop.

What is not a message is answered with an error, and nothing else gets onto standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_WAITING_CHARS = 64 * 1024 * 1024
_READ_BYTES = 1 << 16
_CLOSE_S = 0.3
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
_CHUNKS = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})

REQUEST_ID: ContextVar[int | str | None] = ContextVar("REQUEST_ID", default=None)
"""The id of the request that a task answers: tasks that are made after a message was received inherit it."""
SENT_ID: ContextVar[int | str | None] = ContextVar("SENT_ID", default=None)
"""The id of the request that a task sent last."""


class EditorPipe:
    """Implements the transport of the SDK's connection.

    Args:
        source: the file to read messages from.
        target: the file to write messages to.
        on_lost: is called on the event loop when the editor no longer reads.
    """

    def __init__(self, source: int, target: int, on_lost: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._when_answered: dict[int | str | None, Callable[[], None]] = {}
        self._writer = _Writer(target, lambda: self._call(on_lost))
        self._reader = threading.Thread(target=self._read, name="acp input", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        kept: list[bytes] = []
        size, is_dropping = 0, False
        while data := self._read_some():
            *ended, rest = data.split(b"\n")
            for line in ended:
                if is_dropping:
                    is_dropping = False
                else:
                    self._call(self._received.put_nowait, b"".join([*kept, line]))
                kept, size = [], 0
            kept.append(rest)
            size += len(rest)
            if size > MAX_LINE_BYTES:
                kept, size = [], 0
                if not is_dropping:
                    self._call(self._received.put_nowait, b"a line that is too long")
                is_dropping = True
        self._call(self._received.put_nowait, None)

    def _read_some(self) -> bytes:
        try:
            return os.read(self._source, _READ_BYTES)
        except OSError:
            return b""

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end of input."""
        while (line := await self._received.get()) is not None:
            if line.strip() and (message := self._parsed(line)) is not None:
                REQUEST_ID.set(message.get("id"))
                return message
        return None

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            self.post(_error(PARSE_ERROR, "Parse error: not a JSON message"))
            return None
        is_message = isinstance(found, dict) and (
            isinstance(found.get("method"), str) or ("id" in found and ("result" in found or "error" in found))
        )
        if not is_message:
            self.post(_error(INVALID_REQUEST, "Invalid request: not a JSON-RPC message"))
            return None
        message: dict[str, Any] = found
        return message

    async def send(self, message: dict[str, Any]) -> None:
        if "method" in message:
            SENT_ID.set(message.get("id"))
        self.post(message)

    def post(self, message: dict[str, Any]) -> None:
        """Send a message without waiting for anything."""
        self._writer.put(message)
        if self._when_answered and "method" not in message and (call := self._when_answered.pop(message.get("id"), None)):
            call()

    def when_answered(self, request_id: int | str | None, call: Callable[[], None]) -> None:
        """Call something as soon as the answer to a request of the editor is on its way."""
        self._when_answered[request_id] = call

    async def close(self) -> None:
        """Write what waits, for a third of a second at most."""
        await asyncio.to_thread(self._writer.close)


class _Writer:
    """Writes messages in a thread.  While the editor is slow, further text of one answer joins the chunk that waits."""

    def __init__(self, target: int, on_lost: Callable[[], None]) -> None:
        self._target, self._on_lost = target, on_lost
        self._waiting: deque[dict[str, Any]] = deque()
        self._size = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="acp output", daemon=True)
        self._thread.start()

    def put(self, message: dict[str, Any]) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._size += len(str(message))
            if not (self._waiting and _join(self._waiting[-1], message)):
                self._waiting.append(message)
            if self._size > MAX_WAITING_CHARS:
                self._waiting.clear()
                self._is_closed = True
                self._on_lost()
            self._changed.notify()

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._is_closed:
                        return
                    self._changed.wait()
                batch = tuple(self._waiting)
                self._waiting.clear()
                self._size = 0
            data = memoryview(b"".join(map(_encoded, batch)))
            try:
                while data:
                    data = data[os.write(self._target, data) :]
            except OSError:
                with self._changed:
                    self._is_closed = True
                    self._waiting.clear()
                self._on_lost()
                return

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_S)


def _encoded(message: Mapping[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "replace")  # a lone surrogate is no JSON for most readers


def _error(code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


def _join(last: dict[str, Any], message: Mapping[str, Any]) -> bool:
    """Add the text of a chunk to the one before, where they are parts of one message."""
    one, other = _chunk_of(last), _chunk_of(message)
    if one is None or other is None or last["params"]["sessionId"] != message["params"]["sessionId"]:
        return False
    if any(one.get(key) != other.get(key) for key in ("sessionUpdate", "messageId")):
        return False
    one["content"] = {"type": "text", "text": one["content"]["text"] + other["content"]["text"]}
    return True


def _chunk_of(message: Mapping[str, Any]) -> dict[str, Any] | None:
    if message.get("method") != "session/update":
        return None
    update: dict[str, Any] = message["params"]["update"]
    return update if update["sessionUpdate"] in _CHUNKS and update["content"]["type"] == "text" else None
