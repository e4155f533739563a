"""A model server that plays a script: real HTTP and real server-sent events on its own loopback port.

The demo runs on it and so do the tests; it says in its model name that nothing thinks here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from lmtui.core.messages import INTERRUPTED
from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedFault, ScriptedTurn

_PIECE = re.compile(r"\s*\S+|\s+")
_MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    """One chat request as it came: raw bytes, parsed body, the header that tests look at, and when its last byte was there.

    `at_s` is in seconds on the monotonic clock.
    """

    raw: bytes
    body: dict[str, Any]
    authorization: str
    at_s: float


class ScriptedServer:
    """An OpenAI-compatible server on 127.0.0.1; use it as an async context manager.

    Several scenarios may be played at once: the first whose `match` is in the first user message.  `usage` is what it said that
    each whole answer cost.
    """

    def __init__(self, *scenarios: Scenario, key: str = "") -> None:
        self._scenarios: Sequence[Scenario] = scenarios
        self._key = key
        self._server: asyncio.Server | None = None
        self._faults_played: Counter[tuple[str, int]] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: list[Received] = []
        self.usage: list[dict[str, Any]] = []
        self.open_streams = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=1 << 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Return the server's `/v1` address."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._serve(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; True where the connection may carry another."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request_line, *lines = head.split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = min(int(headers.get("content-length", "0") or 0), _MAX_BODY_BYTES)
        body = await reader.readexactly(size) if size else b""
        at_s = time.monotonic()
        method, path = request_line.split(" ")[:2]
        if self._key and headers.get("authorization") != f"Bearer {self._key}":
            return await _reply(writer, 401, {"error": {"message": "invalid api key"}})
        if method == "GET" and path == "/v1/models":
            return await _reply(writer, 200, self._models())
        if method != "POST" or path != "/v1/chat/completions":
            return await _reply(writer, 404, {"error": {"message": f"no such route: {path}"}})
        try:
            request = Received(body, json.loads(body), headers.get("authorization", ""), at_s)
        except ValueError as error:
            return await _reply(writer, 400, {"error": {"message": f"bad JSON: {error}"}})
        self.requests.append(request)
        return await self._complete(writer, request.body)

    def _models(self) -> dict[str, object]:
        names = [(name, scenario.window_tokens) for scenario in self._scenarios for name in scenario.models]
        data = [{"id": name, "object": "model", "meta": {"n_ctx": window}} for name, window in dict(names).items()]
        return {"object": "list", "data": data}

    async def _complete(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        known = [name for scenario in self._scenarios for name in scenario.models]
        model = body.get("model", known[0])
        if model not in known:
            return await _reply(writer, 404, {"error": {"message": f"model '{model}' not found"}})
        scenario, index, turn = self._turn(body)
        fault = turn.fault
        if fault is not None:
            self._faults_played[scenario.name, index] += 1
            if 0 < fault.times < self._faults_played[scenario.name, index]:
                fault = None
        if fault is not None and (answer := _instead(fault)) is not None:
            if not answer[0]:
                return False
            return await _reply(writer, *answer, retry_after_s=fault.retry_after_s)
        self.open_streams += 1
        try:
            usage = {"prompt_tokens": len(json.dumps(body)) // 4, "prompt_tokens_details": {"cached_tokens": 0}}
            is_whole = await _stream(writer, turn, fault, str(model), usage)
            self.usage += [usage] if is_whole else []
            return is_whole
        finally:
            self.open_streams -= 1

    def _turn(self, body: dict[str, Any]) -> tuple[Scenario, int, ScriptedTurn]:
        messages = body.get("messages") or []
        first = next((_text(message) for message in messages if message.get("role") == "user"), "")
        seeded = [each for each in self._scenarios if each.seed in (None, body.get("seed"))]
        scenario = next((each for each in seeded if each.match in first), self._scenarios[0])
        index = _place(scenario, messages)
        if index >= len(scenario.turns):
            return scenario, index, ScriptedTurn(scenario.ending)
        turn = scenario.turns[index]
        last = next((_text(message) for message in reversed(messages) if message.get("role") == "tool"), "")
        if turn.expect and turn.expect not in last:
            return scenario, index, ScriptedTurn(turn.otherwise or f"I expected {turn.expect!r} and cannot go on.")
        return scenario, index, turn


def _place(scenario: Scenario, messages: Sequence[dict[str, Any]]) -> int:
    if not scenario.goes_by_words:
        answers = (message for message in messages if message.get("role") == "assistant")
        return sum(message.get("content") != INTERRUPTED for message in answers)
    said = "\n".join(map(_text, messages))
    return max((place for place, turn in enumerate(scenario.turns, 1) if turn.text and turn.text in said), default=0)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content)


def _instead(fault: ScriptedFault) -> tuple[int, object] | None:
    """Return the status and body that a fault sends in place of a stream (status 0: just hang up), None if it streams."""
    answers: dict[FaultKind, tuple[int, object]] = {
        FaultKind.REFUSE: (0, ""),
        FaultKind.STATUS: (fault.status, fault.body or {"error": {"message": f"scripted failure {fault.status}"}}),
        FaultKind.LOADING: (503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        FaultKind.HTML: (200, "<!doctype html><title>Router login</title>"),
    }
    return answers.get(fault.kind)


async def _reply(writer: asyncio.StreamWriter, status: int, body: object, retry_after_s: float = 0.0) -> bool:
    is_text = isinstance(body, str)
    data = str(body).encode() if is_text else json.dumps(body).encode()
    kind = "text/html" if is_text and str(body).startswith("<") else "application/json"
    head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
    head += f"Retry-After: {retry_after_s:g}\r\n" if retry_after_s else ""
    writer.write(head.encode() + b"\r\n" + data)
    await writer.drain()
    return True


async def _stream(
    writer: asyncio.StreamWriter, turn: ScriptedTurn, fault: ScriptedFault | None, model: str, usage: dict[str, Any]
) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    await writer.drain()
    sent = 0
    async for delta in _deltas(turn, is_half=fault is not None and fault.kind is FaultKind.HALF_CALL):
        if fault is not None and fault.kind is not FaultKind.HALF_CALL and sent >= fault.after_pieces:
            break
        await _event(writer, {"model": model, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        sent += 1
    if fault is not None and not await _misbehave(writer, fault):
        return False
    default = "tool_calls" if turn.calls else "stop"
    reason = turn.finish_reason or ("length" if fault is not None else default)
    await _event(writer, {"model": model, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage["completion_tokens"] = sent
    await _event(writer, {"model": model, "choices": [], "usage": usage})
    await _chunk(writer, b"data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


async def _misbehave(writer: asyncio.StreamWriter, fault: ScriptedFault) -> bool:
    """Do what the fault does in the middle of a stream; True where the stream then ends as if nothing were wrong."""
    if fault.kind is FaultKind.STALL:
        await asyncio.sleep(fault.seconds)
    elif fault.kind is FaultKind.GARBAGE:
        await _chunk(writer, b"data: {this is not json\n\n")
    elif fault.kind is FaultKind.ERROR_OBJECT:
        await _event(writer, {"error": {"message": fault.body or "scripted failure in the stream", "code": 500}})
    return fault.kind is FaultKind.HALF_CALL


async def _deltas(turn: ScriptedTurn, *, is_half: bool) -> AsyncIterator[dict[str, object]]:
    yield {"role": "assistant", "content": None}
    pause_s = 1 / turn.rate if turn.rate else 0.0
    for piece in _PIECE.findall(turn.thinking):
        await asyncio.sleep(pause_s)
        yield {"reasoning_content": piece}
    for piece in turn.pieces or _PIECE.findall(turn.text):
        await asyncio.sleep(pause_s)
        yield {"content": piece}
    for index, call in enumerate(turn.calls):
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
        head = {"name": call.name, "arguments": ""}
        call_id = f"call_{index}_{zlib.crc32(text.encode('utf-8', 'replace')):08x}"
        yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": head}]}
        end = len(text) // 2 if is_half else len(text)
        for start in range(0, end, 24):
            await asyncio.sleep(pause_s)
            yield {"tool_calls": [{"index": index, "function": {"arguments": text[start : min(start + 24, end)]}}]}


async def _event(writer: asyncio.StreamWriter, value: dict[str, object]) -> None:
    await _chunk(writer, b"data: " + json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n")


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()
