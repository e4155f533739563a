"""Loading and unloading in Ollama: an empty request with a time to keep it.

Its `/v1` takes no window, and a request there loads the model again with the window that the model itself names.  So another
window is had by another name: a copy that shares the files (`/api/create`) and has the window as its parameter.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from lmtui.core.servers import LoadProgress, LoadState, ServedModel, ServerFound
from lmtui.models.provider_errors import load_failed
from lmtui.models.servers import server_client
from lmtui.models.servers.server_client import LoadRequest, ServerClient, loaded

TAGS, RUNNING, SHOW = "/api/tags", "/api/ps", "/api/show"
MOST_SHOWN = 32
AT_ONCE = 6


def models(tags: Any, running: Any) -> tuple[ServedModel, ...]:
    """Return the models, the loaded ones with their window."""
    loaded = {server_client.text(each, "name"): each for each in server_client.items(running, "models")}
    return tuple(_model(each, loaded.get(server_client.text(each, "name"))) for each in server_client.items(tags, "models"))


def _model(item: dict[str, Any], running: dict[str, Any] | None) -> ServedModel:
    return ServedModel(
        name=server_client.text(item, "name"),
        window_tokens=server_client.number(running, "context_length"),
        load=LoadState.of(running is not None),
        size_bytes=server_client.number(item, "size"),
        quantisation=server_client.text(server_client.part(item, "details"), "quantization_level"),
    )


async def with_abilities(client: ServerClient, found: tuple[ServedModel, ...], limit_s: float) -> tuple[ServedModel, ...]:
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
    able = server_client.words(shown, "capabilities")
    info = server_client.part(shown, "model_info")
    trained = next((server_client.number(info, key) for key in info if key.endswith(".context_length")), 0)
    return replace(
        model,
        has_tools="tools" in able if able else None,
        has_vision="vision" in able if able else None,
        thinks="thinking" in able if able else None,
        max_window_tokens=trained,
        template=server_client.digest(server_client.raw_text(shown, "template")),
        is_embedder=bool(able) and "embedding" in able and "completion" not in able,
    )


GENERATE, CREATE = "/api/generate", "/api/create"
KEEP = "30m"
_LOOK_LIMIT_S = 10.0


async def load(client: ServerClient, wanted: LoadRequest) -> AsyncGenerator[LoadProgress, None]:
    """Load a model; with its own window, under the name of a copy that has it."""
    name, server = wanted.model.name, wanted.server
    is_other = bool(wanted.window_tokens) and wanted.window_tokens != wanted.model.window_tokens
    if is_other:
        copy = copy_name(name, wanted.window_tokens)
        yield LoadProgress(f"making {copy}: the same files, window {wanted.window_tokens:,}")
        body = {"model": copy, "from": name, "parameters": {"num_ctx": wanted.window_tokens}, "stream": False}
        made = await client.post(CREATE, body, server_client.UNLOAD_LIMIT_S)
        if server_client.text(made.ok, "status") != "success":
            raise load_failed(server.url, copy, made.status, made.start or made.why, verb="make")
        name = copy
    task = asyncio.create_task(
        client.post(GENERATE, {"model": name, "keep_alive": KEEP, "stream": False}, server_client.LOAD_LIMIT_S)
    )
    async with aclosing(server_client.passing(task, f"loading {name}", wanted.tick_s)) as steps:
        async for step in steps:
            yield step
    _check(task.result(), server.url, name, "load")
    running = (await client.get(RUNNING, _LOOK_LIMIT_S)).ok
    found = models({"models": [{"name": name}]}, running)
    yield loaded(found[0].window_tokens, wanted.window_tokens, name if is_other else "")


async def unload(client: ServerClient, server: ServerFound, model: ServedModel) -> None:
    """Let a model go at once."""
    reply = await client.post(GENERATE, {"model": model.name, "keep_alive": 0, "stream": False}, server_client.UNLOAD_LIMIT_S)
    _check(reply, server.url, model.name, "unload")


def copy_name(name: str, window_tokens: int) -> str:
    """Return the name of the copy of a model with another window: `qwen3:8b` becomes `qwen3:8b-16k`."""
    size = f"{window_tokens // 1024}k" if window_tokens % 1024 == 0 else str(window_tokens)
    base, _, tag = name.partition(":")
    return f"{base}:{re.sub(r'-[0-9]+k$', '', tag or 'latest')}-{size}"


def _check(reply: server_client.ServerReply, url: str, name: str, verb: str) -> None:
    if not isinstance(reply.ok, dict) or reply.ok.get("done") is not True:
        raise load_failed(url, name, reply.status, reply.start or reply.why, verb=verb)
