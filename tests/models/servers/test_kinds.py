from __future__ import annotations

from typing import Any

import pytest

from lmtui.core.servers import LoadState, ServedModel, ServerFound
from lmtui.models.discovery import look_at
from lmtui.models.servers.server_client import digest
from tests.models.fake_server import NO_ROUTE, Answer, Reply, Serve, listing, ok
from tests.models.servers.answers import (
    LLAMA_CPP_LIST,
    LLAMA_CPP_PROPS,
    LM_STUDIO,
    LM_STUDIO_OLD,
    LM_STUDIO_UNKNOWN,
    OLLAMA_RUNNING,
    OLLAMA_SHOWN,
    OLLAMA_TAGS,
    ROUTER_PROPS,
    router_item,
)
from tests.sets import for_each


async def look(serve: Serve, answers: dict[str, Any], otherwise: Answer = NO_ROUTE, limit_s: float = 20) -> ServerFound:
    found = await look_at((await serve(answers, otherwise)).url, limit_s=limit_s)
    assert found is not None
    return found


def shown(body: dict[str, Any]) -> Reply:
    return ok(OLLAMA_SHOWN[body["model"]]) if body["model"] in OLLAMA_SHOWN else (404, b'{"error": "model not found"}')


async def test_lm_studio_tells_the_window_of_the_loaded_instance_and_an_older_one_too(serve: Serve) -> None:
    found = await look(serve, {"/api/v1/models": LM_STUDIO, "/v1/models": listing({"id": "x"})}, ok(LM_STUDIO_UNKNOWN))
    assert (found.kind, found.can_load) == ("LM Studio", True)
    assert found.models[0] == ServedModel(
        "google/gemma-4-26b-a4b", 4096, load=LoadState.LOADED, has_tools=True, has_vision=True, thinks=True,
        max_window_tokens=262_144, size_bytes=17_990_911_801, quantisation="Q4_K_M", slots=4,
    )  # fmt: skip
    unloaded, embedder = found.models[1:]
    assert (unloaded.is_loaded, unloaded.window_tokens, unloaded.thinks) == (False, 0, None)
    assert embedder.is_embedder
    found = await look(serve, {"/api/v0/models": LM_STUDIO_OLD, "/v1/models": listing({"id": "qwen"})}, ok(LM_STUDIO_UNKNOWN))
    assert (found.kind, found.can_load) == ("LM Studio", False)
    embedder, qwen, gemma = found.models
    assert embedder.is_embedder
    assert (qwen.window_tokens, qwen.is_loaded, qwen.has_tools, qwen.quantisation) == (8192, True, True, "Q4_K_M")
    assert (gemma.window_tokens, gemma.is_loaded, gemma.has_tools, gemma.has_vision) == (0, False, None, True)


async def test_ollama_tells_what_runs_and_what_each_model_can_do(serve: Serve) -> None:
    answers = {"/api/tags": OLLAMA_TAGS, "/api/ps": OLLAMA_RUNNING, "/api/show": shown, "/v1/models": listing({"id": "x"})}
    found = await look(serve, answers)
    assert (found.kind, found.can_load) == ("Ollama", True)
    assert found.models[0] == ServedModel(
        "qwen2.5-coder:7b", 4096, load=LoadState.LOADED, has_tools=True, has_vision=False, thinks=False,
        max_window_tokens=32_768, size_bytes=4_683_087_332, quantisation="Q4_K_M", template=digest("{{ .System }}{{ .Tools }}"),
    )  # fmt: skip
    gemma, nomic = found.models[1:]
    assert (gemma.window_tokens, gemma.is_loaded, gemma.has_tools, gemma.has_vision) == (0, False, False, True)
    assert nomic.is_embedder


async def test_ollama_is_asked_about_a_bounded_number_of_models_and_nothing_is_loaded(serve: Serve) -> None:
    tags = {"models": [{"name": f"m{number}"} for number in range(200)]}
    server = await serve(
        {"/api/tags": tags, "/api/ps": {"models": [{"name": "m199", "context_length": 2048}]}, "/api/show": shown}
    )
    found = await look_at(server.url, limit_s=20)
    assert found is not None
    assert (len(found.models), {path for path, _ in server.posted}) == (200, {"/api/show"})
    assert len(server.posted) <= 32
    assert {"model": "m199"} in [body for _, body in server.posted]


@pytest.mark.parametrize("has_tags", [False, True], ids=["plain", "with the Ollama route"])
async def test_llama_cpp_tells_its_window_slots_and_template(serve: Serve, has_tags: bool) -> None:
    more = {"/api/tags": LLAMA_CPP_LIST} if has_tags else {}
    found = await look(serve, {"/props": LLAMA_CPP_PROPS, "/v1/models": LLAMA_CPP_LIST, **more})
    assert (found.kind, found.can_load) == ("llama.cpp", False)
    assert found.models == (
        ServedModel(
            "qwen",
            8192,
            load=LoadState.LOADED,
            has_tools=True,
            has_vision=False,
            max_window_tokens=32_768,
            size_bytes=485_452_288,
            quantisation="Q4_K - Medium",
            slots=2,
            template=digest(LLAMA_CPP_PROPS["chat_template"]),
        ),
    )


async def test_llama_cpp_behind_a_key_asleep_or_without_a_place_for_tools_says_so(serve: Serve) -> None:
    refused = (401, b'{"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}')
    found = await look(serve, {"/v1/models": LLAMA_CPP_LIST}, otherwise=refused)
    assert (found.kind, found.models[0].window_tokens) == ("llama.cpp", 8192)
    assert "API key required" in found.note
    sleeping = await serve({"/props": LLAMA_CPP_PROPS | {"is_sleeping": True}, "/v1/models": LLAMA_CPP_LIST})
    asleep = await look_at(sleeping.url, limit_s=20)
    assert asleep is not None
    assert ((asleep.models[0].is_loaded, asleep.saves_prompts), sleeping.posted) == ((False, None), [])
    props = LLAMA_CPP_PROPS | {"chat_template_caps": {"supports_tools": False, "supports_tool_calls": False}}
    model = (await look(serve, {"/props": props, "/v1/models": LLAMA_CPP_LIST})).models[0]
    assert (model.drops_tools, model.has_tools) == (True, False)


async def test_a_router_is_asked_about_loaded_models_alone_and_told_to_load_none(serve: Serve) -> None:
    listed = listing(router_item("big:Q4", "loaded"), router_item("small", "unloaded"), router_item("next", "loading"))
    answers = {
        "/v1/models": listed, "/props": ROUTER_PROPS,
        "/props?model=big%3AQ4&autoload=false": LLAMA_CPP_PROPS | {"default_generation_settings": {"n_ctx": 16_384}},
    }  # fmt: skip
    server = await serve(answers)
    found = await look_at(server.url, limit_s=20)
    assert found is not None
    assert (found.kind, found.can_load) == ("llama.cpp", True)
    told = [(model.name, model.is_loaded, model.is_loading, model.window_tokens) for model in found.models]
    assert told == [("big:Q4", True, False, 16_384), ("small", False, False, 0), ("next", False, True, 0)]
    assert [path for path in server.asked if "model=" in path] == ["/props?model=big%3AQ4&autoload=false"]
    assert server.posted == []


HOSTED = {
    "id": "x/y", "context_length": 131_072, "supported_parameters": ["tools", "seed"],
    "architecture": {"input_modalities": ["text", "image"]},
}  # fmt: skip


@for_each(("answers", "kind", "models"), [
    ({"/v1/models": listing({"id": "m", "owned_by": "vllm", "max_model_len": 16_384})}, "vLLM",
     [ServedModel("m", 16_384, load=LoadState.LOADED)]),
    ({"/v1/models": listing({"id": "m", "owned_by": "sglang", "max_model_len": 8192})}, "SGLang",
     [ServedModel("m", 8192, load=LoadState.LOADED)]),
    ({"/v1/models": listing({"id": "koboldcpp/mistral", "owned_by": "koboldcpp"}),
      "/api/tags": {"models": [{"name": "koboldcpp"}]}, "/props": {"default_generation_settings": {"n_ctx": 1}},
      "/api/extra/true_max_context_length": {"value": 8192}}, "KoboldCpp",
     [ServedModel("koboldcpp/mistral", 8192, load=LoadState.LOADED)]),
    ({"/v1/models": listing({"id": "m", "owned_by": "tabbyAPI"}),
      "/v1/model": {"id": "m", "parameters": {"max_seq_len": 12_288}}}, "TabbyAPI",
     [ServedModel("m", 12_288)]),
    ({"/v1/models": listing({"id": "a"}, {"id": "b"})}, "OpenAI-compatible", [ServedModel("a"), ServedModel("b")]),
    ({"/v1/models": listing(HOSTED)}, "OpenAI-compatible", [ServedModel("x/y", 131_072, has_tools=True, has_vision=True)]),
])  # fmt: skip
async def test_other_servers_are_told_apart_with_their_windows(
    serve: Serve, answers: dict[str, Any], kind: str, models: list[ServedModel]
) -> None:
    found = await look(serve, answers)
    assert (found.kind, list(found.models)) == (kind, models)
