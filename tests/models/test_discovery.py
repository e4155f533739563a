from __future__ import annotations

from typing import Any

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.servers import ServedModel, ServerFound, ServerKind
from lmtui.models import discovery
from lmtui.models.discovery import find_servers, look_at, model_of
from lmtui.models.endpoint import llama_cpp_url
from lmtui.models.keys import ServerKeys
from tests.models.fake_server import FakeServer, Reply, Serve, listing, ok
from tests.sets import for_each

KINDS = {"/v1/models", "/api/v1/models", "/api/v0/models", "/api/tags", "/api/ps", "/props"}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OLLAMA_HOST", "LLAMA_ARG_HOST", "LLAMA_ARG_PORT"):
        monkeypatch.delenv(name, raising=False)


async def look(server: FakeServer, key: str = "", limit_s: float = 20) -> ServerFound:
    found = await look_at(server.url, key, limit_s)
    assert found is not None
    return found


async def named(server: FakeServer) -> ServerFound:
    found = await look_at(server.url, limit_s=20, is_named=True)
    assert found is not None
    return found


async def test_looking_asks_for_lists_alone_and_names_of_models_cannot_steer_the_terminal(serve: Serve) -> None:
    server = await serve({"/v1/models": listing({"id": "a"})})
    await look(server)
    assert (set(server.asked), server.posted) == (KINDS, [])
    found = await look(await serve({"/v1/models": listing({"id": "a\x1b]0;owned\x07b\n"})}))
    assert found.models[0].name == "ab⏎"


WRONG: dict[str, tuple[Reply, str, str]] = {
    "a login page": ((200, b"<!doctype html><title>Router login</title>"), "text/html", "login page"),
    "a web page": ((200, b"<html><h1>It works</h1></html>"), "text/html", "web page"),
    "nothing": ((200, b""), "text/plain", "not as a model server"),
    "null": ((200, b"null"), "application/json", "not as a model server"),
    "a list": ((200, b"[]"), "application/json", "not a list of models"),
    "a text": ((200, b'"data"'), "application/json", "not a list of models"),
    "half of it": ((200, b'{"data": "x", "models'), "application/json", "not as a model server"),
    "a bomb": ((200, b"[" * 100_000), "application/json", "not as a model server"),
    "bytes": ((200, b"\xff\xfe\x00"), "application/octet-stream", "not as a model server"),
    "not found": ((404, b'{"data": [{"id": "m"}]}'), "application/json", "HTTP 404"),
    "failing": ((500, b'{"error": "boom"}'), "application/json", "it fails (HTTP 500"),
    "elsewhere": ((302, b""), "text/plain", "sends elsewhere"),
    "a login": ((401, b"<html>Log in</html>"), "text/html", "login page"),
}


@for_each(("reply", "content_type", "words"), WRONG.values())
async def test_what_is_no_model_server_is_told_of_a_named_address_alone(
    serve: Serve, reply: Reply, content_type: str, words: str
) -> None:
    server = await serve({}, otherwise=reply, content_type=content_type)
    assert await look_at(server.url) is None
    found = await named(server)
    assert (found.kind, found.models) == (ServerKind.UNKNOWN, ())
    assert words in found.note


@pytest.mark.parametrize("data", [
    [{"id": None}, 3, "x", {"id": "m", "max_model_len": "many", "meta": 3}],
    [{}, {"id": "m", "max_model_len": -1, "meta": {"n_ctx": [1]}, "architecture": 3, "supported_parameters": "tools"}],
    [{"id": "m", "max_model_len": True, "context_length": None, "owned_by": ["x"]}],
])  # fmt: skip
async def test_fields_of_the_wrong_type_are_unknown(serve: Serve, data: list[Any]) -> None:
    found = await look(await serve({"/v1/models": {"data": data}}))
    model = next(model for model in found.models if model.name == "m")
    assert model.window_tokens == 0
    assert model.has_tools is None


async def test_a_huge_reply_is_not_read_to_its_end(serve: Serve) -> None:
    server = await serve({}, otherwise=(200, b" " * 24_000_000))
    assert await look_at(server.url) is None
    assert server.sent_bytes < len(KINDS) * 12_000_000


async def test_hanging_and_dripping_servers_hide_no_other_and_are_told(serve: Serve) -> None:
    hanging = [await serve({}, otherwise=None) for _ in range(3)]
    dripping = await serve({}, otherwise=ok(listing({"id": "x" * 500})), drip_s=0.05)
    good = await serve({"/v1/models": listing({"id": "m"})})
    found = {server.url: server for server in await find_servers((*(each.url for each in (*hanging, dripping)), good.url))}
    assert found[good.url].models == (ServedModel("m"),)
    for each in (*hanging, dripping):
        assert "no complete response" in found[each.url].note


@pytest.mark.parametrize("body", [{"error": {"message": "invalid api key"}}, {"error": "Unauthorized"}, {"detail": "no key"}])
async def test_a_server_that_refuses_the_key_is_there_and_says_so(serve: Serve, body: dict[str, Any]) -> None:
    server = await serve({}, otherwise=(401, ok(body)[1]))
    assert "wrong API key" in (await look(server, "wrong")).note
    assert "API key required" in (await look(server)).note
    assert model_of(await look(server, "wrong"), "") is None


async def test_the_key_goes_to_named_addresses_alone_and_follows_no_redirect(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = await serve(), await serve({"/api/tags": {"models": []}})
    monkeypatch.setenv("OLLAMA_HOST", other.url)
    keys = ServerKeys([(mine.url, "sk-canary")])
    found = await find_servers((mine.url + "/v1/chat/completions",), keys.key_for)
    assert mine.keys == {"Bearer sk-canary"}
    assert other.url in [server.url for server in found]
    assert other.asked
    assert not any("canary" in key for key in other.keys)
    other = await serve({}, otherwise=ok(listing({"id": "m"})))
    server = await serve({}, otherwise=(302, b""), location=other.url + "/v1/models")
    assert await look_at(server.url, "sk-canary") is None
    assert other.asked == []


async def test_a_model_is_found_by_its_name_or_as_the_one_that_is_loaded_and_is_never_an_embedder(serve: Serve) -> None:
    tags = {"models": [{"name": "a:latest"}, {"name": "b:7b"}]}
    running = {"models": [{"name": "b:7b", "context_length": 4096}]}
    server = await serve({"/api/tags": tags, "/api/ps": running})
    for wanted, name in (("a:latest", "a:latest"), ("a", "a:latest"), ("", "b:7b")):
        served = model_of(await look(server), wanted)
        assert served is not None
        assert served.name == name
    assert model_of(await look(server), "gone:7b") is None
    old = listing(
        {"id": "embeds", "type": "embeddings", "state": "loaded", "arch": "bert"},
        {"id": "chats", "type": "llm", "state": "not-loaded", "arch": "qwen2"},
    )
    server = await serve({"/api/v0/models": old})
    served = model_of(await look(server), "")
    assert served is not None
    assert served.name == "chats"
    assert [model.name for model in (await look(server)).chat_models] == ["chats"]


@for_each(("environment", "expected"), [
    ({}, ""), ({"LLAMA_ARG_PORT": "9090"}, "http://127.0.0.1:9090"), ({"LLAMA_ARG_HOST": "0.0.0.0"}, "http://127.0.0.1:8080"),
    ({"LLAMA_ARG_HOST": "::1", "LLAMA_ARG_PORT": "81"}, "http://127.0.0.1:81"), ({"LLAMA_ARG_HOST": "/run/llama.sock"}, ""),
    ({"LLAMA_ARG_PORT": "many"}, ""), ({"LLAMA_ARG_PORT": "99999"}, ""),
])  # fmt: skip
def test_the_address_that_the_variables_of_llama_cpp_stand_for(environment: dict[str, str], expected: str) -> None:
    assert llama_cpp_url(environment) == expected


@for_each("host", ["localhost:{port}", "127.0.0.1:{port}", "0.0.0.0:{port}", ":{port}", "http://localhost:{port}/"])
async def test_what_ollama_listens_on_is_found_once(serve: Serve, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    server = await serve({"/api/tags": {"models": [{"name": "m"}]}})
    port = server.url.rpartition(":")[2]
    monkeypatch.setenv("OLLAMA_HOST", host.format(port=port))
    alone = [found for found in await find_servers() if found.url.endswith(f":{port}")]
    assert [found.kind for found in alone] == ["Ollama"]
    both = [found for found in await find_servers((f"http://localhost:{port}",)) if found.url.endswith(f":{port}")]
    assert len(both) == 1


@for_each("host", ["", ":", "::::", "ftp://x", "http://", "host:notaport", "[::1"])
async def test_a_broken_variable_of_ollama_stops_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    server = await serve({"/v1/models": listing({"id": "m"})})
    monkeypatch.setenv("OLLAMA_HOST", host)
    monkeypatch.setattr(discovery, "_PATIENT_S", 30.0)  # the address is named: a busy machine gets more than its 4 seconds
    assert server.url in [found.url for found in await find_servers((server.url,))]


async def test_a_server_that_still_loads_is_there_and_an_address_that_is_none_is_told(serve: Serve) -> None:
    loading = (503, b'{"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}')
    found = await look(await serve({}, otherwise=loading))
    assert found.models == ()
    assert "still loading" in found.note
    with pytest.raises(UsageError, match="ftp://x"):
        await find_servers(("ftp://x",))
