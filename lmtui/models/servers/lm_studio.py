"""Loading and unloading in LM Studio from 0.4 on: `/api/v1/models/load` and `/unload`.

It would load a model a second time next to the instance that is there, so that one goes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from lmtui.core.hosts import is_loopback
from lmtui.core.servers import LoadProgress, LoadState, ServedModel, ServerFound
from lmtui.models.provider_errors import load_failed
from lmtui.models.servers import server_client
from lmtui.models.servers.server_client import LoadRequest, MemoryGate, ServerClient, loaded

V1, V0 = "/api/v1/models", "/api/v0/models"


def is_v1(value: Any) -> bool:
    """Tell whether this is the listing of 0.4 and later."""
    listed = server_client.items(value, "models")
    return server_client.has_list(value, "models") and all("key" in each and "loaded_instances" in each for each in listed)


def is_v0(value: Any) -> bool:
    """Tell whether this is the older listing."""
    listed = server_client.items(value, "data")
    return bool(listed) and all("state" in each or "compatibility_type" in each or "arch" in each for each in listed)


def models_v1(value: Any) -> tuple[ServedModel, ...]:
    """Return the models of the newer listing, a line for each loaded instance."""
    found: list[ServedModel] = []
    for item in server_client.items(value, "models"):
        instances = server_client.items(item, "loaded_instances")
        found += [_model_v1(item, each, is_only=len(instances) < 2) for each in instances or (None,)]
    return tuple(found)


def models_v0(value: Any) -> tuple[ServedModel, ...]:
    """Return the models of the older listing."""
    return tuple(_model_v0(each) for each in server_client.items(value, "data"))


def _model_v1(item: dict[str, Any], instance: dict[str, Any] | None, *, is_only: bool) -> ServedModel:
    able, config = server_client.part(item, "capabilities"), server_client.part(instance, "config")
    key, name = server_client.text(item, "key"), server_client.text(instance, "id")
    reasoning = server_client.part(able, "reasoning")
    return ServedModel(
        name=key if is_only or not name else name,
        window_tokens=server_client.number(config, "context_length"),
        load=LoadState.of(instance is not None),
        has_tools=server_client.flag(able, "trained_for_tool_use"),
        has_vision=server_client.flag(able, "vision"),
        thinks=server_client.text(reasoning, "default") != "off" if reasoning else None,
        max_window_tokens=server_client.number(item, "max_context_length"),
        size_bytes=server_client.number(item, "size_bytes"),
        quantisation=server_client.text(server_client.part(item, "quantization"), "name"),
        slots=server_client.number(config, "parallel"),
        instance="" if name == key else name,
        is_embedder=item.get("type") == "embedding",
    )


def _model_v0(item: dict[str, Any]) -> ServedModel:
    is_loaded = item.get("state") == "loaded"
    return ServedModel(
        name=server_client.text(item, "id"),
        window_tokens=server_client.number(item, "loaded_context_length") if is_loaded else 0,
        load=LoadState.LOADING if item.get("state") == "loading" else LoadState.of(is_loaded),
        has_tools="tool_use" in server_client.words(item, "capabilities") if "capabilities" in item else None,
        has_vision=item.get("type") == "vlm",
        max_window_tokens=server_client.number(item, "max_context_length"),
        quantisation=server_client.text(item, "quantization"),
        is_embedder=item.get("type") == "embeddings",
    )


LOAD, UNLOAD = "/api/v1/models/load", "/api/v1/models/unload"
LARGE_BYTES = 1_000_000_000
_ROOM_RATIO = 1.2  # of its file, for what a model takes when it runs on this machine


async def load(client: ServerClient, wanted: LoadRequest) -> AsyncGenerator[LoadProgress, None]:
    """Load a model; one that is loaded already with the wanted window stays as it is."""
    model, server = wanted.model, wanted.server
    if model.is_loaded and wanted.window_tokens in (0, model.window_tokens):
        yield loaded(model.window_tokens)
        return
    going = [model] if model.is_loaded else []
    gate = wanted.gate if is_loopback(urlsplit(server.url).hostname or "") else None
    has_room = gate is None or gate.available() > _ROOM_RATIO * model.size_bytes > 0
    if wanted.one_model or not has_room:
        going += [each for each in server.models if _is_in_the_way(each, model)]
    async with aclosing(_make_room(client, server, going, gate)) as steps:
        async for step in steps:
            yield step
    window = {"context_length": wanted.window_tokens} if wanted.window_tokens else {}
    body: dict[str, object] = {"model": model.name, "echo_load_config": True, **window}
    task = asyncio.create_task(client.post(LOAD, body, server_client.LOAD_LIMIT_S))
    async with aclosing(server_client.passing(task, f"loading {model.name}", wanted.tick_s)) as steps:
        async for step in steps:
            yield step
    reply = task.result()
    if server_client.text(reply.ok, "status") != "loaded":
        raise load_failed(server.url, model.name, reply.status, reply.start or reply.why)
    served = server_client.number(server_client.part(reply.ok, "load_config"), "context_length")
    yield loaded(served, wanted.window_tokens)


async def unload(client: ServerClient, server: ServerFound, model: ServedModel) -> None:
    """Let a loaded instance go."""
    reply = await client.post(UNLOAD, {"instance_id": model.instance or model.name}, server_client.UNLOAD_LIMIT_S)
    if not server_client.text(reply.ok, "instance_id"):
        raise load_failed(server.url, model.name, reply.status, reply.start or reply.why, verb="unload")


async def _make_room(
    client: ServerClient, server: ServerFound, going: Sequence[ServedModel], gate: MemoryGate | None
) -> AsyncGenerator[LoadProgress, None]:
    before = gate.available() if gate else 0
    for model in going:
        yield LoadProgress(f"unloading {model.name}", unloads=model.name)
        await unload(client, server, model)
    if going and gate:
        async with aclosing(gate.wait(before, sum(model.size_bytes for model in going))) as steps:
            async for step in steps:
                yield step


def _is_in_the_way(other: ServedModel, model: ServedModel) -> bool:
    is_large = not other.size_bytes or other.size_bytes >= LARGE_BYTES
    return bool(other.is_loaded) and other.name != model.name and is_large and not other.is_embedder
