"""Moments of the list of models."""

from __future__ import annotations

from lmtui.core.roles import ModelRole
from lmtui.core.servers import LoadState, ServedModel, ServerFound
from tests.tui.driving import Driver
from tests.tui.fakes import play_work

GB = 1_000_000_000
QWEN3 = ServedModel(
    "qwen/qwen3-coder-30b", 32_768, load=LoadState.LOADED, has_tools=True, thinks=True, max_window_tokens=262_144, slots=4,
    size_bytes=int(18.6 * GB), quantisation="Q4_K_M",
)  # fmt: skip
GEMMA = ServedModel(
    "google/gemma-4-26b-a4b", load=LoadState.UNLOADED, has_tools=True, has_vision=True, thinks=True, max_window_tokens=262_144,
    size_bytes=int(17.9 * GB), quantisation="Q4_K_M",
)  # fmt: skip
NOMIC = ServedModel(
    "text-embedding-nomic-v1.5", load=LoadState.UNLOADED, max_window_tokens=2048, size_bytes=274_290_560, is_embedder=True
)
QWEN = ServedModel(
    "qwen2.5-coder:7b", 4096, load=LoadState.LOADED, has_tools=True, max_window_tokens=32_768, size_bytes=int(4.7 * GB),
    quantisation="Q4_K_M",
)  # fmt: skip
LLAMA = ServedModel(
    "llama3.2:3b", load=LoadState.UNLOADED, has_tools=False, max_window_tokens=131_072, size_bytes=2 * GB, quantisation="Q4_K_M"
)
SMOLLM = ServedModel(
    "smollm2-135m",
    8192,
    load=LoadState.LOADED,
    has_tools=False,
    size_bytes=98_362_432,
    quantisation="Q4_1",
    slots=1,
    drops_tools=True,
)
PHI = ServedModel("phi-4-mini-instruct-Q4_K_M", load=LoadState.UNLOADED, size_bytes=int(2.5 * GB), quantisation="Q4_K_M")
RICH = (
    ServerFound("LM Studio", "http://127.0.0.1:1234", (QWEN3, GEMMA, NOMIC), can_load=True),
    ServerFound("Ollama", "http://127.0.0.1:11434", (QWEN, LLAMA), can_load=True),
    ServerFound("llama.cpp", "http://127.0.0.1:8080", (SMOLLM,)),
    ServerFound("model files", "gguf:", (PHI,), can_load=True),
    ServerFound("OpenAI-compatible", "http://10.0.0.7:9000", (), "API key required"),
)


async def models(driver: Driver) -> None:
    """Four servers, one of them without a key."""
    play_work(driver.host.session)
    driver.host.servers.found = RICH
    await driver.press("alt+e", to="Models")
    await driver.until_shown("smollm2")


async def model_role(driver: Driver) -> None:
    """One is to have a role; another has two."""
    for role in (ModelRole.PLANNER, ModelRole.REVIEWER):
        driver.host.settings.set_role(role, QWEN.name)
    await models(driver)
    await driver.press("down", "e", to="Picker")


async def model_roles(driver: Driver) -> None:
    """Two have roles."""
    await model_role(driver)
    await driver.press(*"ana", "enter")
    await driver.until_shown("new sessions use it")


MODEL_SCENES = {"models": models, "model_roles": model_roles}
