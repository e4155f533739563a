"""What LM Studio tells: `/api/v1/models` from 0.4 on, `/api/v0/models` before.

The window that is served is that of the loaded instance, not the model's own maximum.
Source: LM Studio's documentation of its REST API.
"""

from __future__ import annotations

from typing import Any

from lmtui.core.servers import ServedModel
from lmtui.providers.servers.facts import flag, has_list, items, number, part, text, words

V1, V0 = "/api/v1/models", "/api/v0/models"


def is_v1(value: Any) -> bool:
    """Tell whether this is the listing of 0.4 and later."""
    listed = items(value, "models")
    return has_list(value, "models") and all("key" in each and "loaded_instances" in each for each in listed)


def is_v0(value: Any) -> bool:
    """Tell whether this is the older listing."""
    listed = items(value, "data")
    return bool(listed) and all("state" in each or "compatibility_type" in each or "arch" in each for each in listed)


def models_v1(value: Any) -> tuple[ServedModel, ...]:
    """Return the models of the newer listing, a line for each loaded instance."""
    return tuple(model for each in items(value, "models") for model in _instances(each))


def models_v0(value: Any) -> tuple[ServedModel, ...]:
    """Return the models of the older listing."""
    return tuple(_model_v0(each) for each in items(value, "data"))


def _instances(item: dict[str, Any]) -> list[ServedModel]:
    loaded = items(item, "loaded_instances")
    return [_model_v1(item, each, is_only=len(loaded) == 1) for each in loaded] or [_model_v1(item, None, is_only=True)]


def _model_v1(item: dict[str, Any], instance: dict[str, Any] | None, *, is_only: bool) -> ServedModel:
    able, config = part(item, "capabilities"), part(instance, "config")
    key, name = text(item, "key"), text(instance, "id")
    reasoning = part(able, "reasoning")
    return ServedModel(
        name=key if is_only or not name else name,
        window_tokens=number(config, "context_length"),
        is_loaded=instance is not None,
        has_tools=flag(able, "trained_for_tool_use"),
        has_vision=flag(able, "vision"),
        thinks=text(reasoning, "default") != "off" if reasoning else None,
        max_window_tokens=number(item, "max_context_length"),
        size_bytes=number(item, "size_bytes"),
        quantisation=text(part(item, "quantization"), "name"),
        slots=number(config, "parallel"),
        instance="" if name == key else name,
        is_embedder=item.get("type") == "embedding",
    )


def _model_v0(item: dict[str, Any]) -> ServedModel:
    is_loaded = item.get("state") == "loaded"
    return ServedModel(
        name=text(item, "id"),
        window_tokens=number(item, "loaded_context_length") if is_loaded else 0,
        is_loaded=is_loaded,
        has_tools="tool_use" in words(item, "capabilities") if "capabilities" in item else None,
        has_vision=item.get("type") == "vlm",
        max_window_tokens=number(item, "max_context_length"),
        quantisation=text(item, "quantization"),
        is_embedder=item.get("type") == "embeddings",
        is_loading=item.get("state") == "loading",
    )
