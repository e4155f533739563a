"""Loading and unloading in llama.cpp's router: `/models/load` and `/unload` return at once, the list says what became of it.

How far it is is in its events (`/models/sse`), where it has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.servers import LoadProgress, LoadState, ServedModel, ServerFound
from lmtui.models.provider_errors import load_failed
from lmtui.models.servers.server_client import (
    LOAD_LIMIT_S,
    TICK_S,
    UNLOAD_LIMIT_S,
    LoadRequest,
    ServerClient,
    digest,
    flag,
    items,
    loaded,
    number,
    part,
    raw_text,
    text,
    words,
)

PROPS = "/props"
MOST_ASKED = 4
_THINKS = ("enable_thinking", "reasoning_effort")
_LOADED, _LOADING = ("loaded", "sleeping"), ("loading", "downloading")


def is_props(value: Any) -> bool:
    """Tell whether this is the answer of `/props`."""
    return isinstance(value, dict) and "default_generation_settings" in value


def is_router(listed: Any, props: Any) -> bool:
    """Tell whether one server is before several models, which it loads and unloads."""
    return text(props, "role") == "router" or any(part(each, "status") for each in items(listed, "data"))


def is_ours(listed: Any) -> bool:
    """Tell whether a listing of models is llama.cpp's, where `/props` does not answer."""
    return any(each.get("owned_by") == "llamacpp" for each in items(listed, "data"))


def models(listed: Any, props: Any) -> tuple[ServedModel, ...]:
    """Return the models of a server that serves one (or of a router, as far as its list tells)."""
    found = tuple(_listed(each) for each in items(listed, "data"))
    return found if is_router(listed, props) else tuple(with_props(each, props) for each in found)


async def ask_router(client: ServerClient, found: tuple[ServedModel, ...], limit_s: float) -> tuple[ServedModel, ...]:
    """Ask a router about those that are loaded; nothing is loaded by that."""
    loaded = [model.name for model in found if model.is_loaded][:MOST_ASKED]
    paths = [f"{PROPS}?model={quote(name, safe='')}&autoload=false" for name in loaded]
    replies = await asyncio.gather(*(client.get(path, limit_s) for path in paths))
    told = {name: reply.ok for name, reply in zip(loaded, replies, strict=True) if is_props(reply.ok)}
    return tuple(with_props(model, told[model.name]) if model.name in told else model for model in found)


def with_props(model: ServedModel, props: Any) -> ServedModel:
    """Return a model with what `/props` tells of it."""
    if not is_props(props):
        return model
    template, caps = raw_text(props, "chat_template"), part(props, "chat_template_caps")
    takes_tools = flag(caps, "supports_tools")
    seen = flag(part(props, "modalities"), "vision")
    return replace(
        model,
        window_tokens=number(props["default_generation_settings"], "n_ctx") or model.window_tokens,
        load=LoadState.of(props.get("is_sleeping") is not True),
        has_tools=takes_tools if takes_tools is not None else model.has_tools,
        drops_tools=takes_tools is False,
        has_vision=seen if seen is not None else model.has_vision,
        thinks=_thinks(template) or None,
        slots=number(props, "total_slots"),
        quantisation=model.quantisation or text(props, "model_ftype"),
        template=digest(template),
    )


def _listed(item: dict[str, Any]) -> ServedModel:
    meta, status = part(item, "meta"), text(part(item, "status"), "value")
    takes, gives = (words(part(item, "architecture"), name) for name in ("input_modalities", "output_modalities"))
    return ServedModel(
        name=text(item, "id"),
        window_tokens=number(meta, "n_ctx"),
        load=LoadState.LOADING if status in _LOADING else LoadState.of(not status or status in _LOADED),
        has_vision="image" in takes if takes else None,
        max_window_tokens=number(meta, "n_ctx_train"),
        size_bytes=number(meta, "size"),
        quantisation=text(meta, "ftype"),
        is_embedder=bool(gives) and "text" not in gives,
    )


def _thinks(template: str) -> bool:
    """Tell whether a template begins the answer with thinking, or has a switch for it."""
    beginning = template.rpartition("add_generation_prompt")[2]
    return "<think>" in beginning or any(word in template for word in _THINKS)


LOAD, UNLOAD, LIST, EVENTS = "/models/load", "/models/unload", "/v1/models", "/models/sse"
_REPLY_LIMIT_S = 10.0
_GIVE_UP_LIMIT_S = 2.0


async def load(client: ServerClient, wanted: LoadRequest) -> AsyncGenerator[LoadProgress, None]:
    """Load a model; given up before it is there, it is unloaded again."""
    model, server = wanted.model, wanted.server
    if wanted.window_tokens and wanted.window_tokens != model.window_tokens:
        hint = f"Set `c = {wanted.window_tokens}` for it in the router's presets, or start the router with -c."
        raise ProviderError(Fault.REJECTED, "llama.cpp's router takes the window from its own settings", hint)
    if model.is_loaded:
        yield loaded(model.window_tokens)
        return
    is_ours = not model.is_loading  # one that somebody else asked for is followed, and never given up
    if is_ours:
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
                found = await ask_router(client, models({"data": [item]}, None), _REPLY_LIMIT_S)
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
        if is_ours and not is_over:
            await client.post(UNLOAD, {"model": model.name}, _GIVE_UP_LIMIT_S)


async def unload(client: ServerClient, server: ServerFound, model: ServedModel) -> None:
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


async def _follow(client: ServerClient, name: str, told: _Told) -> None:
    """Take note of the router's events about a model; older ones have none."""
    async with aclosing(client.events(EVENTS)) as events:
        async for event in events:
            progress = part(part(event, "data"), "progress")
            value = progress.get("value")
            if text(event, "model") == name and isinstance(value, float | int):
                stages = words(progress, "stages") or [""]
                at = stages.index(text(progress, "current")) if text(progress, "current") in stages else 0
                told.ratio = max(0.0, min(1.0, (at + value) / len(stages)))


async def _order(client: ServerClient, server: ServerFound, model: ServedModel, path: str) -> None:
    reply = await client.post(path, {"model": model.name}, _REPLY_LIMIT_S)
    if not isinstance(reply.ok, dict) or reply.ok.get("success") is not True:
        verb = path.rpartition("/")[2]
        raise load_failed(server.url, model.name, reply.status, reply.start or reply.why, verb=verb)


async def _item(client: ServerClient, name: str) -> dict[str, Any]:
    listed = (await client.get(LIST, _REPLY_LIMIT_S)).ok
    return next((each for each in items(listed, "data") if text(each, "id") == name), {})


def _failed(server: ServerFound, model: ServedModel, status: dict[str, Any]) -> ProviderError:
    return ProviderError(
        Fault.SERVER_ERROR,
        f"{server.url} could not load {model.name}: its process ended with {status.get('exit_code', 'no code')}",
        "Look at the server's log; mostly it is the memory: unload another model, or give it a smaller window.",
    )
