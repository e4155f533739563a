"""What Ollama tells: `/api/tags`, the loaded models in `/api/ps`, and `/api/show` for what one can do.

The window that is served stands in `/api/ps` alone; Ollama cuts longer prompts in silence.  Source: Ollama's API documentation.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from lmtui.core.servers import ServedModel
from lmtui.providers.servers.client import Client
from lmtui.providers.servers.facts import digest, items, number, part, raw_text, text, words

TAGS, RUNNING, SHOW = "/api/tags", "/api/ps", "/api/show"
MOST_SHOWN = 32
AT_ONCE = 6


def models(tags: Any, running: Any) -> tuple[ServedModel, ...]:
    """Return the models, the loaded ones with their window."""
    loaded = {text(each, "name"): each for each in items(running, "models")}
    return tuple(_model(each, loaded.get(text(each, "name"))) for each in items(tags, "models"))


def _model(item: dict[str, Any], running: dict[str, Any] | None) -> ServedModel:
    return ServedModel(
        name=text(item, "name"),
        window_tokens=number(running, "context_length"),
        is_loaded=running is not None,
        size_bytes=number(item, "size"),
        quantisation=text(part(item, "details"), "quantization_level"),
    )


async def with_abilities(client: Client, found: tuple[ServedModel, ...], limit_s: float) -> tuple[ServedModel, ...]:
    """Ask what each model can do, the loaded ones first; what does not answer in time stays unknown."""
    gate = asyncio.Semaphore(AT_ONCE)
    order = sorted(range(len(found)), key=lambda at: not found[at].is_loaded)[:MOST_SHOWN]
    end = asyncio.get_running_loop().time() + limit_s

    async def ask(at: int) -> tuple[int, ServedModel]:
        async with gate:
            left_s = end - asyncio.get_running_loop().time()
            reply = await client.post(SHOW, {"model": found[at].name}, max(0.0, left_s))
            return at, _able(found[at], reply.ok) if isinstance(reply.ok, dict) else found[at]

    known = dict(await asyncio.gather(*(ask(at) for at in order)))
    return tuple(known.get(at, model) for at, model in enumerate(found))


def _able(model: ServedModel, shown: dict[str, Any]) -> ServedModel:
    able = words(shown, "capabilities")
    info = part(shown, "model_info")
    trained = next((number(info, key) for key in info if key.endswith(".context_length")), 0)
    return replace(
        model,
        has_tools="tools" in able if able else None,
        has_vision="vision" in able if able else None,
        thinks="thinking" in able if able else None,
        max_window_tokens=trained,
        template=digest(raw_text(shown, "template")),
        is_embedder=bool(able) and "embedding" in able and "completion" not in able,
    )
