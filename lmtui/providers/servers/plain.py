"""What other servers tell in `/v1/models`: vLLM, SGLang, TabbyAPI, KoboldCpp and hosted ones."""

from __future__ import annotations

from typing import Any

from lmtui.core.servers import ServedModel, ServerKind
from lmtui.providers.servers.client import Client
from lmtui.providers.servers.facts import has_list, items, number, part, text, words

_OWNERS = {"vllm": ServerKind.VLLM, "sglang": "SGLang", "koboldcpp": "KoboldCpp", "tabbyapi": "TabbyAPI"}
_WINDOW_PLACES = {
    "KoboldCpp": ("/api/extra/true_max_context_length", "", "value"),
    "TabbyAPI": ("/v1/model", "parameters", "max_seq_len"),
}
_ALWAYS_LOADED = (ServerKind.VLLM, "SGLang", "KoboldCpp")


def is_listing(value: Any) -> bool:
    """Tell whether this is a list of models in OpenAI's form."""
    return has_list(value, "data")


def kind_of(value: Any) -> str:
    """Return the kind of server that a listing is from, as its models' owner says."""
    listed = items(value, "data")
    owners = {text(each, "owned_by").lower() for each in listed}
    told = next((kind for owner, kind in _OWNERS.items() if owner in owners), "")
    return told or (ServerKind.VLLM if any("max_model_len" in each for each in listed) else ServerKind.OTHER)


def models(value: Any, kind: str) -> tuple[ServedModel, ...]:
    """Return the models; only those that are loaded are listed by some kinds."""
    is_loaded = True if kind in _ALWAYS_LOADED else None
    return tuple(_model(each, is_loaded) for each in items(value, "data"))


async def window_of(client: Client, kind: str, limit_s: float) -> int:
    """Return the window of the one model that some kinds serve, from an endpoint of their own; 0 where it is not told."""
    if kind not in _WINDOW_PLACES:
        return 0
    path, inside, key = _WINDOW_PLACES[kind]
    value = (await client.get(path, limit_s)).ok
    return number(part(value, inside) if inside else value, key)


def _model(item: dict[str, Any], is_loaded: bool | None) -> ServedModel:
    options = words(item, "supported_parameters")
    takes = words(part(item, "architecture"), "input_modalities")
    return ServedModel(
        name=text(item, "id"),
        window_tokens=number(item, "max_model_len", "context_window", "context_length") or number(part(item, "meta"), "n_ctx"),
        is_loaded=is_loaded,
        has_tools="tools" in options if options else None,
        has_vision="image" in takes if takes else None,
    )
