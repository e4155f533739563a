"""Loading and unloading in llama.cpp's router: `/models/load` and `/unload` return at once, the list says what became of it.

How far it is stands in its events (`/models/sse`), where it has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.servers import LoadProgress, ServedModel, ServerFound
from lmtui.providers.faults import load_failed
from lmtui.providers.servers import llama_cpp
from lmtui.providers.servers.client import Client
from lmtui.providers.servers.facts import items, part, text, words
from lmtui.providers.servers.memory import MemoryGate
from lmtui.providers.servers.wanted import LOAD_LIMIT_S, TICK_S, UNLOAD_LIMIT_S, Wanted, loaded

LOAD, UNLOAD, LIST, EVENTS = "/models/load", "/models/unload", "/v1/models", "/models/sse"
_REPLY_LIMIT_S = 10.0
_GIVE_UP_LIMIT_S = 2.0


async def load(client: Client, wanted: Wanted, _: MemoryGate) -> AsyncGenerator[LoadProgress, None]:
    """Load a model; given up before it is there, it is unloaded again."""
    model, server = wanted.model, wanted.server
    if wanted.window_tokens and wanted.window_tokens != model.window_tokens:
        hint = f"Set `c = {wanted.window_tokens}` for it in the router's presets, or start the router with -c."
        raise ProviderError(Fault.REJECTED, "llama.cpp's router takes the window from its own settings", hint)
    if model.is_loaded:
        yield loaded(model.window_tokens)
        return
    await _order(client, server, model, LOAD)
    clock = asyncio.get_running_loop().time
    started, is_over = clock(), False
    told = _Told()
    following = asyncio.create_task(_follow(client, model.name, told))
    try:
        while clock() - started < LOAD_LIMIT_S:
            item = await _item(client, model.name)
            status = part(item, "status")
            if text(status, "value") == "loaded":
                is_over = True
                found = await llama_cpp.ask_router(client, llama_cpp.models({"data": [item]}, None), _REPLY_LIMIT_S)
                yield loaded(found[0].window_tokens)
                return
            if status.get("failed") is True:
                is_over = True
                raise _failed(server, model, status)
            yield LoadProgress(f"loading {model.name}, {clock() - started:.0f} s", told.ratio)
            await asyncio.sleep(wanted.tick_s)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        if not is_over:
            await client.post(UNLOAD, {"model": model.name}, _GIVE_UP_LIMIT_S)


async def unload(client: Client, server: ServerFound, model: ServedModel) -> None:
    """Let a model go and wait until it is gone."""
    await _order(client, server, model, UNLOAD)
    end = asyncio.get_running_loop().time() + UNLOAD_LIMIT_S
    while asyncio.get_running_loop().time() < end:
        if text(part(await _item(client, model.name), "status"), "value") in ("", "unloaded"):
            return
        await asyncio.sleep(TICK_S)


@dataclass
class _Told:
    """How far the router says that it is: 0 to 1, -1 where it does not say."""

    ratio: float = -1.0


async def _follow(client: Client, name: str, told: _Told) -> None:
    """Take note of the router's events about a model; older ones have none."""
    async with aclosing(client.events(EVENTS)) as events:
        async for event in events:
            progress = part(part(event, "data"), "progress")
            value = progress.get("value")
            if text(event, "model") == name and isinstance(value, float | int):
                stages = words(progress, "stages") or [""]
                at = stages.index(text(progress, "current")) if text(progress, "current") in stages else 0
                told.ratio = max(0.0, min(1.0, (at + value) / len(stages)))


async def _order(client: Client, server: ServerFound, model: ServedModel, path: str) -> None:
    reply = await client.post(path, {"model": model.name}, _REPLY_LIMIT_S)
    if not isinstance(reply.ok, dict) or reply.ok.get("success") is not True:
        verb = path.rpartition("/")[2]
        raise load_failed(server.url, model.name, reply.status, reply.start or reply.why, verb=verb)


async def _item(client: Client, name: str) -> dict[str, Any]:
    listed = (await client.get(LIST, _REPLY_LIMIT_S)).ok
    return next((each for each in items(listed, "data") if text(each, "id") == name), {})


def _failed(server: ServerFound, model: ServedModel, status: dict[str, Any]) -> ProviderError:
    return ProviderError(
        Fault.SERVER_ERROR,
        f"{server.url} could not load {model.name}: its process ended with {status.get('exit_code', 'no code')}",
        "Look at the server's log; mostly it is the memory: unload another model, or give it a smaller window.",
    )
