"""What llama.cpp's server tells: `/props`, the `meta` of `/v1/models`, and the `status` of models where it is a router.

A router loads a model that `/props` is asked about, so it is asked for loaded ones alone and told not to.
Source: llama.cpp's `tools/server/README.md`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from lmtui.core.servers import ServedModel
from lmtui.providers.servers.client import Client
from lmtui.providers.servers.facts import digest, flag, items, number, part, raw_text, text, words

PROPS = "/props"
MOST_ASKED = 4
_THINKS = ("enable_thinking", "reasoning_effort")
_LOADED, _LOADING = ("loaded", "sleeping"), ("loading", "downloading")


def is_props(value: Any) -> bool:
    """Tell whether this is the answer of `/props`."""
    return isinstance(value, dict) and "default_generation_settings" in value


def is_router(listed: Any, props: Any) -> bool:
    """Tell whether one server stands before several models, which it loads and unloads."""
    return text(props, "role") == "router" or any(part(each, "status") for each in items(listed, "data"))


def is_ours(listed: Any) -> bool:
    """Tell whether a listing of models is llama.cpp's, where `/props` does not answer."""
    return any(each.get("owned_by") == "llamacpp" for each in items(listed, "data"))


def models(listed: Any, props: Any) -> tuple[ServedModel, ...]:
    """Return the models of a server that serves one (or of a router, as far as its list tells)."""
    found = tuple(_listed(each) for each in items(listed, "data"))
    return found if is_router(listed, props) else tuple(with_props(each, props) for each in found)


async def ask_router(client: Client, found: tuple[ServedModel, ...], limit_s: float) -> tuple[ServedModel, ...]:
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
        is_loaded=props.get("is_sleeping") is not True,
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
        is_loaded=status in _LOADED if status else True,
        has_vision="image" in takes if takes else None,
        max_window_tokens=number(meta, "n_ctx_train"),
        size_bytes=number(meta, "size"),
        quantisation=text(meta, "ftype"),
        is_embedder=bool(gives) and "text" not in gives,
        is_loading=status in _LOADING,
    )


def _thinks(template: str) -> bool:
    """Tell whether a template begins the answer with thinking, or has a switch for it."""
    beginning = template.rpartition("add_generation_prompt")[2]
    return "<think>" in beginning or any(word in template for word in _THINKS)
