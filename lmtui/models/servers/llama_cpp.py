"""Loading and unloading in llama.cpp's router: `/models/load` and `/unload` return at once, the list says what became of it.

How far it is is in its events (`/models/sse`), where it has them.  A slot's prompt cache is saved to and read from its files.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.hosts import root_url
from lmtui.core.servers import LoadProgress, LoadState, ServedModel, ServerFound
from lmtui.models.provider_errors import error_text, load_failed
from lmtui.models.servers.server_client import (
    LOAD_LIMIT_S,
    TICK_S,
    UNLOAD_LIMIT_S,
    LoadRequest,
    ServerClient,
    background_task,
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
    async with background_task(_follow(client, model.name, told)):
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


SLOTS = "/slots"
_ASK_LIMIT_S = 2.0
_PROBE = f"{SLOTS}/0?action=save"
_NO_NAME = "/"  # refused by every server that saves, so that asking writes nothing
# What a saved cache depends on, as far as `/props` tells; the type of the cache is checked by the server itself.
_TOLD = ("model_path", "model_alias", "model_ftype", "chat_template", "total_slots", "build_info", "modalities")


async def can_save(client: ServerClient, found: ServerFound, limit_s: float) -> bool | None:
    """Ask whether a server saves prompt caches, without saving one; None where that is not told.

    Neither a router nor a server that sleeps is asked: it would load a model for it.
    """
    if found.can_load or not found.models or not found.models[0].is_loaded:
        return None
    reply = await client.post(_PROBE, {"filename": _NO_NAME}, limit_s)
    return None if reply.status in (0, 401, 403, 503) else reply.status == 400


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of the server: how many tokens it holds, and whether it works on a request."""

    id: int
    tokens: int
    is_busy: bool


class SlotFiles:
    """The slots of one server; every method has a limit of time and raises `ProviderError`.

    Args:
        url: the server's address.
        key: sent as a bearer token.
        model: the model's name, for a router.
    """

    def __init__(self, url: str, key: str, model: str = "") -> None:
        self._root, self._key, self._model = root_url(url), key, model

    async def fingerprint(self, *, is_awake: bool = False) -> str:
        """Return a digest of the model, its template, its window and the server's build; empty where they are not told.

        With `is_awake`, it is empty too where the server sleeps, and so holds nothing.
        """
        props = await self._told(PROPS, "&autoload=false")
        if not is_props(props) or (is_awake and props.get("is_sleeping") is True):
            return ""
        settings: dict[str, Any] = props["default_generation_settings"]
        told = {name: props.get(name) for name in _TOLD}
        told |= {"n_ctx": settings.get("n_ctx"), "lora": part(settings, "params").get("lora")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]

    async def slots(self) -> list[Slot] | None:
        """Return the slots, None where the server does not list them."""
        listed = await self._told(SLOTS)
        if not isinstance(listed, list):
            return None
        items = [each for each in listed if isinstance(each, dict) and isinstance(each.get("id"), int)]
        return [Slot(each["id"], number(each, "n_prompt_tokens"), each.get("is_processing") is True) for each in items]

    async def save(self, slot: int, name: str, limit_s: float) -> tuple[int, int]:
        """Write what a slot holds to a file; return how many tokens and how many bytes that is."""
        value = await self._act(slot, "save", name, limit_s)
        return number(value, "n_saved"), number(value, "n_written")

    async def restore(self, slot: int, name: str, limit_s: float) -> int:
        """Read a file into a slot, over what that held; return how many tokens there were."""
        return number(await self._act(slot, "restore", name, limit_s), "n_restored")

    async def _told(self, path: str, more: str = "") -> Any:
        path += f"?model={quote(self._model, safe='')}{more}" if self._model else ""
        async with ServerClient(self._root, self._key) as client:
            return (await client.get(path, _ASK_LIMIT_S)).ok

    async def _act(self, slot: int, action: str, name: str, limit_s: float) -> Any:
        body: dict[str, object] = {"filename": name, **({"model": self._model} if self._model else {})}
        async with ServerClient(self._root, self._key) as client:
            reply = await client.post(f"{SLOTS}/{slot}?action={action}", body, limit_s)
        if isinstance(reply.ok, dict):
            return reply.ok
        if reply.status in (404, 501):
            raise ProviderError(Fault.NOT_A_MODEL_SERVER, "the server saves no prompt caches")
        why = f"HTTP {reply.status}: {error_text(reply.start)}" if reply.status else reply.why
        raise ProviderError(Fault.SERVER_ERROR, why)
