from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lmtui.core.errors import ProviderError
from lmtui.core.messages import Completion, Message, ModelRequest, RetryChunk, Role
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy
from lmtui.models.scripted_server import ScriptedServer
from tests.models.fake_server import Serve, failed, ok
from tests.sets import for_each

REQUEST = ModelRequest((Message(Role.SYSTEM, "be good"), Message(Role.USER, "a secret")), (), "scripted")
PROPS = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}


@asynccontextmanager
async def answering(answers: dict[str, tuple[int, dict[str, str], bytes]]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve fixed answers by path (404 for others); yield the address and the bodies that were posted."""
    posted: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line.split(":")[1]) for line in head.lower().split("\r\n") if line.startswith("content-length")), 0)
        if length:
            posted.append(await reader.readexactly(length))
        status, headers, body = answers.get(head.split(" ")[1].partition("?")[0], (404, {}, b"{}"))
        if b"return_progress" in (posted[-1] if length else b""):
            status, headers, body = 400, {}, b'{"error": {"message": "unknown field return_progress"}}'
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", posted


async def test_a_conversation_does_not_follow_a_redirect_to_another_server() -> None:
    async with ScriptedServer(Scenario((ScriptedTurn("hello"),))) as other:
        location = {"Location": f"{other.url}/chat/completions"}
        async with answering({"/v1/chat/completions": (307, location, b"")}) as (url, _):
            provider = OpenAICompatible(url, retry=RetryPolicy(retries=0))
            with pytest.raises(ProviderError, match="307"):
                _ = [piece async for piece in provider.stream(REQUEST)]
            await provider.close()
        assert other.requests == []


async def test_a_server_that_refuses_a_field_of_its_kind_is_asked_without_it() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    stream = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    answers = {
        "/v1/chat/completions": (200, {"Content-Type": "text/event-stream"}, stream),
        "/props": (200, {"Content-Type": "application/json"}, json.dumps(PROPS).encode()),
        "/v1/models": (200, {"Content-Type": "application/json"}, b'{"data": [{"id": "scripted"}]}'),
    }
    async with answering(answers) as (url, posted):
        provider = OpenAICompatible(url, retry=RetryPolicy(retries=0))
        assert await provider.served("scripted") is not None
        for _ in range(2):
            last = [piece async for piece in provider.stream(REQUEST)][-1]
            assert isinstance(last, Completion)
            assert last.message.text == "hi"
        await provider.close()
    assert [b"return_progress" in body for body in posted if b"messages" in body] == [True, False, False]


@for_each("status", [400, 422])
@for_each("fields", [
    ("stream_options",), ("temperature",), ("top_p",), ("seed",), ("repeat_penalty",), ("max_tokens",),
    ("seed", "stream_options"),
])  # fmt: skip
async def test_a_field_that_the_server_refuses_is_left_out_once_and_for_all(
    serve: Serve, fields: tuple[str, ...], status: int
) -> None:
    def reply(body: dict[str, object]) -> tuple[int, bytes]:
        named = next((name for name in fields if name in body), "")
        said = {"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]}
        return failed(status, f"Extra inputs are not permitted: {named}") if named else ok(said)

    server = await serve({"/v1/chat/completions": reply})
    provider = OpenAICompatible(f"{server.url}/v1", retry=RetryPolicy(retries=0))
    request = replace(REQUEST, temperature=0.5, top_p=0.9, seed=1, repeat_penalty=1.1, max_tokens=100)
    first = [piece async for piece in provider.stream(request)]
    second = [piece async for piece in provider.stream(request)]
    await provider.close()
    assert len(server.posted) == len(fields) + 2
    assert [isinstance(piece, RetryChunk) for piece in (first[0], second[0])] == [True, False]
    assert set(server.posted[-1][1]) == {*server.posted[0][1]} - {*fields}
