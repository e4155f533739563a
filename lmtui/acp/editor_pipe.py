"""The two pipes to the editor: one JSON-RPC message a line, read and written in threads so that no pipe blocks the loop.

What is not a message is answered with an error, and nothing else gets onto standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from itertools import groupby
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_WAITING_CHARS = 64 * 1024 * 1024
_CLOSE_S = 0.3
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
_CHUNKS = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})

REQUEST_ID: ContextVar[int | str | None] = ContextVar("REQUEST_ID", default=None)
"""The id of the request that a task answers: tasks that are made after a message was received inherit it."""
SENT_ID: ContextVar[int | str | None] = ContextVar("SENT_ID", default=None)
"""The id of the request that a task sent last."""


class EditorPipe:
    """Implements the transport of the SDK's connection; while the editor is slow, text of one answer is joined.

    Args:
        source: the file to read messages from.
        target: the file to write messages to.
        on_lost: is called when the editor no longer reads.
    """

    def __init__(self, source: int, target: int, on_lost: Callable[[], None]) -> None:
        self._source, self._target, self._on_lost = os.fdopen(source, "rb", closefd=False), target, on_lost
        self._threads = ThreadPoolExecutor(2, "acp pipe")
        self._when_answered: dict[int | str | None, Callable[[], object]] = {}
        self._waiting: deque[dict[str, Any]] = deque()
        self._size = 0
        self._is_closed = False
        self._changed = asyncio.Event()
        self._writing = asyncio.ensure_future(self._write())

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end of input."""
        is_rest, loop = False, asyncio.get_running_loop()
        while line := await loop.run_in_executor(self._threads, self._source.readline, MAX_LINE_BYTES):
            is_cut = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
            if is_cut and not is_rest:
                self._refuse(PARSE_ERROR, "Parse error: the line is too long")
            elif not is_rest and line.strip() and (message := self._parsed(line)) is not None:
                REQUEST_ID.set(message.get("id"))
                return message
            is_rest = is_cut
        return None

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(PARSE_ERROR, "Parse error: not a JSON message")
            return None
        match found:
            case {"method": str()} | {"id": _, "result": _} | {"id": _, "error": _}:
                message: dict[str, Any] = found
                return message
            case _:
                self._refuse(INVALID_REQUEST, "Invalid request: not a JSON-RPC message")
                return None

    def _refuse(self, code: int, message: str) -> None:
        self.post({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})

    async def send(self, message: dict[str, Any]) -> None:
        if "method" in message:
            SENT_ID.set(message.get("id"))
        self.post(message)

    def post(self, message: dict[str, Any]) -> None:
        """Send a message without waiting for anything."""
        if not self._is_closed:
            self._size += len(str(message))
            self._waiting.append(message)
            if self._size > MAX_WAITING_CHARS:
                self._lose()
            self._changed.set()
        if self._when_answered and "method" not in message and (call := self._when_answered.pop(message.get("id"), None)):
            call()

    def when_answered(self, request_id: int | str | None, call: Callable[[], object]) -> None:
        """Call something as soon as the answer to a request of the editor is on its way."""
        self._when_answered[request_id] = call

    def _lose(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._on_lost()

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting or not self._is_closed:
            _ = await self._changed.wait()
            self._changed.clear()
            data = b"".join(_encoded([*same]) for _, same in groupby(self._waiting, _place))
            self._waiting.clear()
            self._size = 0
            try:
                await loop.run_in_executor(self._threads, self._write_all, data)
            except OSError:
                self._lose()

    def _write_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._target, rest) :]

    async def close(self) -> None:
        """Write what waits, for a third of a second at most."""
        self._is_closed = True
        self._changed.set()
        _ = await asyncio.wait((self._writing,), timeout=_CLOSE_S)


def _place(message: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what the pieces of one text have in common, and no other message has."""
    match message:
        case {"params": {"sessionId": session, "update": {"sessionUpdate": kind, "content": {"type": "text"}} as update}}:
            if kind in _CHUNKS:
                return session, kind, update.get("messageId")
    return (id(message),)


def _encoded(same: Sequence[dict[str, Any]]) -> bytes:
    """Return a message, or the pieces of one text as one message, as a line."""
    if len(same) > 1:
        texts = [each["params"]["update"]["content"]["text"] for each in same]
        same[0]["params"]["update"]["content"] = {"type": "text", "text": "".join(texts)}
    text = json.dumps(same[0], ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode("utf-8", "replace")  # a lone surrogate is no JSON for most readers
