from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.servers import ServedModel, ServerFound
from lmtui.providers.discovery import find_servers, look_at, served_model
from lmtui.providers.endpoint import ollama_url

Reply = tuple[int, bytes]


@dataclass
class FakeServer:
    """Answers each path with its reply, everything else with `otherwise`; None hangs."""

    replies: dict[str, Reply | None]
    otherwise: Reply | None = (404, b'{"error": "no such route"}')
    url: str = ""
    location: str = "/"
    asked: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    sent_bytes: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                path = head.split(" ", 2)[1]
                self.asked.append(path)
                lines = head.split("\r\n")
                self.keys |= {line.partition(": ")[2] for line in lines if line.lower().startswith("authorization:")}
                reply = self.replies.get(path, self.otherwise)
                if reply is None:
                    await asyncio.sleep(30)
                    return
                status, body = reply
                extra = f"Location: {self.location}\r\n" if status == 302 else ""
                writer.write(f"HTTP/1.1 {status} X\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode())
                for start in range(0, len(body), 1 << 18):
                    writer.write(body[start : start + (1 << 18)])
                    await writer.drain()
                    self.sent_bytes += 1 << 18
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


Serve = Callable[..., Awaitable[FakeServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    running: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(replies: dict[str, Any] | None = None, otherwise: Reply | None = (404, b'{"error": "no"}')) -> FakeServer:
        made = {
            path: reply if reply is None or isinstance(reply, tuple) else ok(reply) for path, reply in (replies or {}).items()
        }
        fake = FakeServer(made, otherwise)

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            await fake.answer(reader, writer)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        running.append(server)
        fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return fake

    yield start
    for server in running:
        server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def ok(value: object) -> Reply:
    return 200, json.dumps(value).encode()


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(items)}


async def look(server: FakeServer, key: str = "") -> ServerFound:
    found = await look_at(server.url, key)
    assert found is not None
    return found


async def test_lm_studio_tells_the_window_of_what_is_loaded(serve: Serve) -> None:
    native = listing(
        {"id": "text-embedding-nomic", "type": "embeddings", "state": "loaded", "loaded_context_length": 2048},
        {
            "id": "qwen", "type": "llm", "state": "loaded", "loaded_context_length": 8192, "max_context_length": 131_072,
            "capabilities": ["tool_use"],
        },
        {"id": "gemma", "type": "vlm", "state": "not-loaded", "max_context_length": 32_768},
    )  # fmt: skip
    server = await serve(
        {"/api/v0/models": native, "/v1/models": listing({"id": "qwen"}), "/api/tags": {"error": "Unexpected endpoint"}}
    )
    found = await look(server)
    assert found.kind == "LM Studio"
    assert found.models == (
        ServedModel("qwen", 8192, is_loaded=True, has_tools=True, has_vision=False),
        ServedModel("gemma", 0, is_loaded=False, has_tools=None, has_vision=True),
    )
    for name in ("qwen", ""):
        served = await served_model(server.url, "", name)
        assert served is not None
        assert served.window_tokens == 8192
    unloaded = await served_model(server.url, "", "gemma")
    assert unloaded is not None
    assert unloaded.window_tokens == 0


async def test_ollama_tells_the_window_of_what_runs(serve: Serve) -> None:
    tags = {"models": [{"name": "llama3:8b", "size": 1}, {"name": "phi:latest"}]}
    running = {"models": [{"name": "phi:latest", "context_length": 4096, "size_vram": 1}]}
    names = listing({"id": "llama3:8b"}, {"id": "phi:latest"})
    found = await look(await serve({"/api/tags": tags, "/api/ps": running, "/v1/models": names}))
    assert found.kind == "Ollama"
    assert found.models == (ServedModel("llama3:8b", 0, is_loaded=False), ServedModel("phi:latest", 4096, is_loaded=True))


async def test_ollama_without_models_is_still_ollama(serve: Serve) -> None:
    found = await look(await serve({"/api/tags": {"models": None}, "/api/ps": {"models": []}, "/v1/models": listing()}))
    assert (found.kind, found.models) == ("Ollama", ())


@pytest.mark.parametrize("has_tags", [False, True], ids=["plain", "with the Ollama route"])
async def test_llama_cpp_tells_the_window_of_a_slot(serve: Serve, has_tags: bool) -> None:
    listed = listing({"id": "model.gguf", "meta": {"n_ctx": 32_768, "n_ctx_train": 131_072}}) | {
        "models": [{"name": "model.gguf"}]
    }
    replies: dict[str, Any] = {
        "/props": {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 4},
        "/v1/models": listed,
    }
    if has_tags:
        replies["/api/tags"] = listed
    found = await look(await serve(replies))
    assert found.kind == "llama.cpp"
    assert found.models == (ServedModel("model.gguf", 8192, is_loaded=True),)


async def test_without_props_the_window_is_in_the_listing(serve: Serve) -> None:
    found = await look(await serve({"/v1/models": listing({"id": "m", "meta": {"n_ctx": 8192}})}))
    assert found.models == (ServedModel("m", 8192),)


async def test_vllm_tells_max_model_len(serve: Serve) -> None:
    found = await look(await serve({"/v1/models": listing({"id": "m", "max_model_len": 16_384})}))
    assert (found.kind, found.models) == ("vLLM", (ServedModel("m", 16_384),))


async def test_a_plain_server_has_names_and_no_window(serve: Serve) -> None:
    found = await look(await serve({"/v1/models": listing({"id": "a"}, {"id": "b"})}))
    assert (found.kind, found.models) == ("OpenAI-compatible", (ServedModel("a"), ServedModel("b")))
    assert found.models[0].is_loaded is None


async def test_looking_never_asks_for_more_than_lists(serve: Serve) -> None:
    server = await serve({"/v1/models": listing({"id": "a"})})
    await look(server)
    assert set(server.asked) == {"/v1/models", "/api/v0/models", "/api/tags", "/api/ps", "/props"}


async def test_names_of_models_cannot_steer_the_terminal(serve: Serve) -> None:
    found = await look(await serve({"/v1/models": listing({"id": "a\x1b]0;owned\x07b\n"})}))
    assert found.models[0].name == "ab⏎"


@pytest.mark.parametrize(
    "reply",
    [
        (200, b"<!doctype html><title>Router login</title>"),
        (200, b""),
        (200, b"null"),
        (200, b"[]"),
        (200, b'"data"'),
        (200, b'{"data": "x", "models'),
        (200, b"[" * 100_000),
        (200, b"\xff\xfe\x00"),
        (404, b'{"data": [{"id": "m"}]}'),
        (503, b'{"error": {"message": "Loading model"}}'),
        (302, b""),
        (401, b"<html>Log in</html>"),
    ],
    ids=lambda reply: f"{reply[0]}-{reply[1][:12]!r}",
)
async def test_what_is_no_model_server_is_not_found(serve: Serve, reply: Reply) -> None:
    server = await serve({}, otherwise=reply)
    assert await look_at(server.url) is None


@pytest.mark.parametrize(
    "data",
    [
        [{"id": None}, 3, "x", {"id": "m", "max_model_len": "many", "meta": 3}],
        [{}, {"id": "m", "max_model_len": -1, "meta": {"n_ctx": [1]}}],
    ],
)
async def test_fields_of_the_wrong_type_are_unknown(serve: Serve, data: list[Any]) -> None:
    found = await look(await serve({"/v1/models": {"data": data}}))
    assert ServedModel("m") in found.models


async def test_a_huge_reply_is_not_read_to_its_end(serve: Serve) -> None:
    server = await serve({}, otherwise=(200, b" " * 64_000_000))
    assert await look_at(server.url) is None
    assert server.sent_bytes < 5 * 12_000_000


async def test_a_hanging_route_hides_no_other(serve: Serve) -> None:
    server = await serve({"/v1/models": listing({"id": "m"})}, otherwise=None)
    started = time.monotonic()
    assert (await look(server)).models == (ServedModel("m"),)
    assert time.monotonic() - started < 1.3


async def test_a_hanging_server_costs_a_second_however_many_there_are(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    hanging = [await serve({}, otherwise=None) for _ in range(3)]
    good = await serve({"/v1/models": listing({"id": "m"})})
    started = time.monotonic()
    found = await find_servers((*(server.url for server in hanging), good.url))
    assert time.monotonic() - started < 1.3
    assert good.url in [server.url for server in found]
    assert not {server.url for server in hanging} & {server.url for server in found}


async def test_nothing_there_is_nothing_found_at_once() -> None:
    started = time.monotonic()
    assert await look_at("http://127.0.0.1:9") is None
    assert time.monotonic() - started < 0.5


async def test_a_server_that_refuses_the_key_is_there_and_says_so(serve: Serve) -> None:
    server = await serve({}, otherwise=(401, b'{"error": {"message": "invalid api key"}}'))
    assert "refuses the key" in (await look(server, "wrong")).note
    assert "wants a key" in (await look(server)).note
    assert await served_model(server.url, "wrong", "") is None


async def test_the_key_goes_to_named_addresses_alone(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    named, other = await serve(), await serve({"/api/tags": {"models": []}})
    monkeypatch.setenv("OLLAMA_HOST", other.url)
    found = await find_servers((named.url + "/v1/chat/completions",), "sk-canary")
    assert named.keys == {"Bearer sk-canary"}
    assert other.url in [server.url for server in found]
    assert other.asked
    assert not any("canary" in key for key in other.keys)


async def test_a_redirect_is_not_followed(serve: Serve) -> None:
    other = await serve({}, otherwise=ok(listing({"id": "m"})))
    server = await serve({}, otherwise=(302, b""))
    server.location = other.url + "/v1/models"
    assert await look_at(server.url, "sk-canary") is None
    assert other.asked == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("box.lan", "http://box.lan:11434"),
        ("https://box.example", "https://box.example"),
        ("[fe80::1]:9", "http://[fe80::1]:9"),
        ("[::]:9", "http://127.0.0.1:9"),
    ],
)
def test_the_address_that_the_variable_of_ollama_stands_for(host: str, expected: str) -> None:
    assert ollama_url(host) == expected


@pytest.mark.parametrize(
    "host", ["localhost:{port}", "127.0.0.1:{port}", "0.0.0.0:{port}", ":{port}", "http://localhost:{port}/"]
)
async def test_what_ollama_listens_on_is_found_once(serve: Serve, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    server = await serve({"/api/tags": {"models": [{"name": "m"}]}})
    port = server.url.rpartition(":")[2]
    monkeypatch.setenv("OLLAMA_HOST", host.format(port=port))
    alone = [found for found in await find_servers() if found.url.endswith(f":{port}")]
    assert [found.kind for found in alone] == ["Ollama"]
    both = [found for found in await find_servers((f"http://localhost:{port}",)) if found.url.endswith(f":{port}")]
    assert len(both) == 1


@pytest.mark.parametrize("host", ["", ":", "::::", "ftp://x", "http://", "host:notaport", "[::1"])
async def test_a_broken_variable_of_ollama_stops_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    server = await serve({"/v1/models": listing({"id": "m"})})
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert server.url in [found.url for found in await find_servers((server.url,))]


async def test_an_address_that_is_none_is_told() -> None:
    with pytest.raises(UsageError, match="ftp://x"):
        await find_servers(("ftp://x",))
