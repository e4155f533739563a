from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.servers import LoadProgress, LoadState, ServedModel, ServerFound, ServerKind
from lmtui.models.discovery import Loader
from lmtui.models.servers.lm_studio import load
from lmtui.models.servers.server_client import LoadRequest, MemoryGate, ServerClient
from tests.models.fake_server import FakeServer, Reply, Serve, failed, listing, ok
from tests.models.servers.answers import (
    LLAMA_CPP_PROPS,
    LM_STUDIO,
    LM_STUDIO_LOADED,
    LM_STUDIO_UNLOADED,
    OLLAMA_RUNNING,
    OLLAMA_TAGS,
    ROUTER_PROPS,
    router_item,
)
from tests.sets import for_each

GEMMA, QWEN = LM_STUDIO_LOADED["key"], LM_STUDIO_UNLOADED["key"]
LOAD, UNLOAD = "/api/v1/models/load", "/api/v1/models/unload"
NO_GATE = MemoryGate(available=lambda: 64_000_000_000, steady_s=0.0)
GIB = 1024**3


def loader(server: FakeServer, key: str = "", **options: Any) -> Loader:
    return Loader(server.url, key, gate=options.pop("gate", NO_GATE), tick_s=0.01, **options)


async def told(server: FakeServer, model: str, window_tokens: int = 0, **options: Any) -> list[LoadProgress]:
    return [step async for step in loader(server, **options).load(model, window_tokens)]


def loaded_with(body: dict[str, Any]) -> Reply:
    config = {"context_length": body.get("context_length", 4096)}
    return ok({"instance_id": body["model"], "status": "loaded", "load_config": config})


def unloaded(body: dict[str, Any]) -> Reply:
    return ok({"instance_id": body["instance_id"]})


SMALLER = ok({"status": "loaded", "instance_id": QWEN, "load_config": {"context_length": 8192}})
ORDER = {"model": QWEN, "echo_load_config": True}


@for_each(("model", "window", "load", "options", "said", "posted"), [
    (QWEN, 16_384, loaded_with, {}, "loaded, window 16,384", [(LOAD, {**ORDER, "context_length": 16_384})]),
    (QWEN, 0, loaded_with, {}, "loaded, window 4,096", [(LOAD, ORDER)]),  # the server's own
    (QWEN, 32_768, SMALLER, {}, "loaded, window 8,192, not 32,768", [(LOAD, {**ORDER, "context_length": 32_768})]),
    (GEMMA, 0, loaded_with, {}, "loaded, window 4,096", []),  # as wanted
    (GEMMA, 8192, loaded_with, {}, "loaded, window 8,192",
     [(UNLOAD, {"instance_id": GEMMA}), (LOAD, {**ORDER, "model": GEMMA, "context_length": 8192})]),
    (QWEN, 0, loaded_with, {"one_model": True}, "loaded, window 4,096", [(UNLOAD, {"instance_id": GEMMA}), (LOAD, ORDER)]),
])  # fmt: skip
async def test_lm_studio_loads_with_the_window_that_was_asked_for(
    serve: Serve, model: str, window: int, load: Any, options: dict[str, Any], said: str, posted: list[Any]
) -> None:
    server = await serve({"/api/v1/models": LM_STUDIO, LOAD: load, UNLOAD: unloaded})
    steps = await told(server, model, window, key="sk-canary", **options)
    assert steps[-1] == LoadProgress(said, 1.0)
    if posted:
        first = "loading" if posted[0][0] == LOAD else "unloading"
        assert steps[0].text.startswith(f"{first} {model if posted[0][0] == LOAD else GEMMA}")
    assert (server.posted, server.keys) == (posted, {"Bearer sk-canary"})


async def test_progress_is_told_while_a_load_takes_time_and_closing_gives_it_up(serve: Serve) -> None:
    server = await serve({"/api/v1/models": LM_STUDIO, LOAD: None})
    async with aclosing(loader(server).load(QWEN)) as steps:
        for _ in range(3):
            step = await anext(steps)
            assert (step.text.startswith(f"loading {QWEN}, "), step.ratio) == (True, -1.0)
    while server.ends < len(server.asked):
        await asyncio.sleep(0.01)


FAULTS: dict[str, tuple[Reply, Fault, str]] = {
    "no memory": (failed(500, "Model loading was stopped due to insufficient system resources."),
        Fault.REJECTED, "Unload another model, or ask for a smaller window."),
    "key": (failed(401, "invalid token"), Fault.KEY_REFUSED, "LLM_API_KEY"),
    "gone": (failed(404, "Model not found"), Fault.UNKNOWN_MODEL, "Look again"),
    "boom": (failed(500, "exit code 18446744072635810000"), Fault.SERVER_ERROR, "server's log"),
    "odd": (ok({"error": "Unexpected endpoint or method."}), Fault.SERVER_ERROR, "server's log"),
    "page": ((200, b"<html>"), Fault.SERVER_ERROR, "server's log"),
}  # fmt: skip


@for_each(("reply", "fault", "hint"), FAULTS.values())
async def test_a_load_that_fails_says_why_and_the_way_out(serve: Serve, reply: Reply, fault: Fault, hint: str) -> None:
    server = await serve({"/api/v1/models": LM_STUDIO, LOAD: reply})
    with pytest.raises(ProviderError) as caught:
        await told(server, QWEN)
    assert (caught.value.fault, hint in caught.value.hint) == (fault, True)


def measured(*values: int) -> Iterator[int]:
    return chain(values, repeat(values[-1]))


async def test_the_wait_for_memory_has_an_end_and_is_none_where_nothing_went() -> None:
    swapped = measured(*(mib << 20 for mib in (100, 100, 100, 100, 300, 600, 613)))
    gate = MemoryGate(available=lambda: GIB, swapped=lambda: next(swapped), tick_s=0.0)
    for ended, freed in ((replace(gate, limit_s=0.0), 8 * GIB), (replace(gate, steady_s=0.0), 8 * GIB), (gate, 0)):
        assert [step async for step in ended.wait(GIB, freed)] == []
    steps = [step.text async for step in gate.wait(GIB, 8 * GIB)]
    assert [step.split()[0] for step in steps] == ["waiting", "waiting", "swap"]


async def test_a_load_waits_until_memory_is_back_and_makes_no_room_elsewhere(serve: Serve) -> None:
    values = measured(*(gib * GIB for gib in (4, 4, 4, 12, 22)))
    gate = MemoryGate(available=lambda: next(values), tick_s=0.0)
    server = await serve({"/api/v1/models": LM_STUDIO, LOAD: loaded_with, UNLOAD: unloaded})
    steps = [step.text for step in await told(server, QWEN, one_model=True, gate=gate)]
    waits = [step for step in steps if step.startswith("waiting for memory")]
    assert waits[0] == "waiting for memory: 4.0 of 16.6 GiB are free"
    assert "12.0 of 16.6" in waits[-1]
    assert steps.index(waits[-1]) < next(at for at, step in enumerate(steps) if step.startswith("loading"))
    models = (ServedModel("other", load=LoadState.LOADED, size_bytes=GIB), ServedModel(QWEN, size_bytes=GIB))
    elsewhere = LoadRequest(ServerFound(ServerKind.LM_STUDIO, "http://192.0.2.1", models), models[1])
    async with ServerClient(server.url) as client:
        steps = [each.text async for each in load(client, replace(elsewhere, gate=MemoryGate(lambda: 0)))]
    assert steps[0].startswith("loading"), "of another machine's memory nothing is known"


def done(body: dict[str, Any]) -> Reply:
    return ok({"model": body["model"], "response": "", "done": True, "done_reason": "load"})


OLLAMA = {"/api/tags": OLLAMA_TAGS, "/api/ps": OLLAMA_RUNNING, "/api/generate": done}


async def test_another_window_in_ollama_is_a_copy_of_the_model_that_has_it(serve: Serve) -> None:
    running = {"models": [{"name": "qwen2.5-coder:7b-16k", "context_length": 16_384}]}
    server = await serve(OLLAMA | {"/api/ps": running, "/api/create": {"status": "success"}})
    steps = [step.text for step in await told(server, "qwen2.5-coder:7b", 16_384)]
    assert steps[0] == "making qwen2.5-coder:7b-16k: the same files, window 16,384"
    assert steps[-1] == "loaded as qwen2.5-coder:7b-16k, window 16,384"
    made = dict(server.posted)["/api/create"]
    assert (made["from"], made["parameters"]) == ("qwen2.5-coder:7b", {"num_ctx": 16_384})


async def test_ollama_loads_with_an_empty_request_and_unloads_by_keeping_it_for_no_time(serve: Serve) -> None:
    server = await serve(OLLAMA)
    assert (await told(server, "qwen2.5-coder:7b"))[-1].text == "loaded, window 4,096"
    posted = [body for path, body in server.posted if path == "/api/generate"]
    assert posted == [{"model": "qwen2.5-coder:7b", "keep_alive": "30m", "stream": False}]
    server = await serve(OLLAMA)
    await loader(server).unload("qwen2.5-coder:7b")
    assert server.posted[-1] == ("/api/generate", {"model": "qwen2.5-coder:7b", "keep_alive": 0, "stream": False})


class Router:
    """The states that a router's list goes through, one each time that it is asked after the order."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.states = list(states)
        self.is_ordered = False

    def order(self, _: dict[str, Any]) -> Reply:
        self.is_ordered = True
        return ok({"success": True})

    def list(self, _: dict[str, Any]) -> Reply:
        if self.is_ordered and len(self.states) > 1:
            self.states.pop(0)
        return ok(listing(self.states[0]))

    def answers(self) -> dict[str, Any]:
        own = "/props?model=small&autoload=false"
        return {
            "/v1/models": self.list, "/props": ROUTER_PROPS, own: LLAMA_CPP_PROPS,
            "/models/load": self.order, "/models/unload": self.order,
        }  # fmt: skip


async def test_a_load_of_a_router_that_fails_or_is_given_up_says_so_and_is_taken_back(serve: Serve) -> None:
    router = Router(router_item("small", "unloaded"), router_item("small", "unloaded", failed=True, exit_code=1))
    server = await serve(router.answers())
    with pytest.raises(ProviderError, match="its process ended with 1"):
        await told(server, "small")
    router = Router(router_item("small", "unloaded"), router_item("small", "loading"))
    server = await serve(router.answers())
    async with aclosing(loader(server).load("small")) as steps:
        _ = await anext(steps)
    assert server.posted[-1] == ("/models/unload", {"model": "small"})


async def test_a_load_that_somebody_else_began_is_followed_and_not_given_up(serve: Serve) -> None:
    router = Router(*(router_item("small", state) for state in ("loading", "loading", "loading", "loaded")))
    router.is_ordered = True
    server = await serve(router.answers())
    assert (await told(server, "small"))[-1].text == "loaded, window 8,192"
    router = Router(*[router_item("small", "loading")] * 5)
    other = await serve(router.answers())
    async with aclosing(loader(other).load("small")) as steps:
        _ = await anext(steps)
    assert server.posted == other.posted == []


async def test_a_router_takes_no_window(serve: Serve) -> None:
    router = Router(router_item("small", "unloaded"))
    server = await serve(router.answers())
    with pytest.raises(ProviderError, match="from its own settings") as caught:
        await told(server, "small", 16_384)
    assert "c = 16384" in caught.value.hint
    assert server.posted == []


async def test_a_router_loads_until_its_list_says_so_and_unloads(serve: Serve) -> None:
    router = Router(*(router_item("small", state) for state in ("unloaded", "loading", "loading", "loaded")))
    server = await serve(router.answers())
    steps = [step.text for step in await told(server, "small")]
    assert steps[0].startswith("loading small, ")
    assert (steps[-1], server.posted) == ("loaded, window 8,192", [("/models/load", {"model": "small"})])
    router = Router(router_item("small", "loaded"), router_item("small", "unloaded"))
    server = await serve(router.answers())
    await loader(server).unload("small")
    assert server.posted == [("/models/unload", {"model": "small"})]


async def test_lm_studio_unloads_the_instance_and_a_model_that_vanished_is_told(serve: Serve) -> None:
    instance = [{"id": "mine", "config": {"context_length": 8192}}]
    server = await serve({"/api/v1/models": {"models": [LM_STUDIO_LOADED | {"loaded_instances": instance}]}, UNLOAD: unloaded})
    await loader(server).unload(GEMMA)
    assert server.posted == [(UNLOAD, {"instance_id": "mine"})]
    server = await serve({"/api/v1/models": LM_STUDIO})
    with pytest.raises(ProviderError, match="has no model 'gone'") as caught:
        await loader(server).unload("gone")
    assert caught.value.fault is Fault.UNKNOWN_MODEL
