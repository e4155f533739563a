"""Loading and unloading in LM Studio from 0.4 on: `/api/v1/models/load` and `/unload`.

It would load a model a second time beside the instance that is there, so that one goes first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from lmtui.core.servers import LoadProgress, ServedModel, ServerFound
from lmtui.providers.endpoint import is_local
from lmtui.providers.faults import load_failed
from lmtui.providers.servers.client import Client
from lmtui.providers.servers.facts import number, part, text
from lmtui.providers.servers.memory import MemoryGate
from lmtui.providers.servers.wanted import LOAD_LIMIT_S, UNLOAD_LIMIT_S, Wanted, loaded, passing

LOAD, UNLOAD = "/api/v1/models/load", "/api/v1/models/unload"
LARGE_BYTES = 1_000_000_000


async def load(client: Client, wanted: Wanted, gate: MemoryGate) -> AsyncGenerator[LoadProgress, None]:
    """Load a model; one that is loaded already with the wanted window stays as it is."""
    model, server = wanted.model, wanted.server
    if model.is_loaded and wanted.window_tokens in (0, model.window_tokens):
        yield loaded(model.window_tokens)
        return
    going = [model] if model.is_loaded else []
    going += [each for each in server.models if wanted.one_model and _is_in_the_way(each, model)]
    async with aclosing(_make_room(client, server, going, gate)) as steps:
        async for step in steps:
            yield step
    body: dict[str, object] = {"model": model.name, "echo_load_config": True}
    if wanted.window_tokens:
        body["context_length"] = wanted.window_tokens
    task = asyncio.create_task(client.post(LOAD, body, LOAD_LIMIT_S))
    async with aclosing(passing(task, f"loading {model.name}", wanted.tick_s)) as steps:
        async for step in steps:
            yield step
    reply = task.result()
    if text(reply.ok, "status") != "loaded":
        raise load_failed(server.url, model.name, reply.status, reply.start or reply.why)
    served = number(part(reply.ok, "load_config"), "context_length")
    yield loaded(served, wanted.window_tokens)


async def unload(client: Client, server: ServerFound, model: ServedModel) -> None:
    """Let a loaded instance go."""
    reply = await client.post(UNLOAD, {"instance_id": model.instance or model.name}, UNLOAD_LIMIT_S)
    if not text(reply.ok, "instance_id"):
        raise load_failed(server.url, model.name, reply.status, reply.start or reply.why, verb="unload")


async def _make_room(
    client: Client, server: ServerFound, going: Sequence[ServedModel], gate: MemoryGate
) -> AsyncGenerator[LoadProgress, None]:
    before = gate.available() if going else 0
    for model in going:
        yield LoadProgress(f"unloading {model.name}")
        await unload(client, server, model)
    if going and is_local(server.url):
        async with aclosing(gate.wait(before, sum(model.size_bytes for model in going))) as steps:
            async for step in steps:
                yield step


def _is_in_the_way(other: ServedModel, model: ServedModel) -> bool:
    is_large = not other.size_bytes or other.size_bytes >= LARGE_BYTES
    return bool(other.is_loaded) and other.name != model.name and is_large and not other.is_embedder
