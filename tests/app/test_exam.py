from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lmtui.app.connection import ModelConnection
from lmtui.app.model_servers import Servers, examine_named, which_model
from lmtui.config import Config
from lmtui.core.errors import ProviderError, UsageError
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import BY_HAND, ExamResult, ModelKey, ModelProfile, ServedModel, ServerFound
from lmtui.store.model_profiles import ProfileStore
from tests.app.conftest import Open
from tests.app.paper_model import PaperModel
from tests.models.fake_server import FakeServer, failed, listing, ok


@dataclass
class Bench:
    """Examines models of paper."""

    start: Callable[..., Any]
    server: FakeServer = field(default_factory=FakeServer)

    async def examine(self, model: PaperModel) -> ExamResult:
        await self.start(self.server, model)
        return await examine_named(Config(url=self.server.url, max_retries=0), "paper")

    def key(self) -> ModelKey:
        return ModelKey(self.server.url, "paper")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    listeners: list[asyncio.Server] = []

    async def start(server: FakeServer, model: PaperModel) -> None:
        server.content_type = "text/event-stream"
        server.answers = {"/v1/models": ok(listing({"id": "paper"})), "/v1/chat/completions": model}
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        listeners.append(listener)
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"

    yield Bench(start)
    for listener in listeners:
        listener.close()
        await listener.wait_closed()


async def test_a_model_that_calls_natively_is_asked_in_no_other_form(bench: Bench) -> None:
    model = PaperModel()
    result = await bench.examine(model)
    assert (result.call_form, result.note) == (ToolCallFormat.NATIVE, "native: works")
    assert model.asked == ["text", "native"]  # the first asks for a word, without tools


async def test_the_form_is_kept_and_a_session_begins_with_it(bench: Bench) -> None:
    result = await bench.examine(PaperModel(forms=frozenset({"text"}), as_text=True))
    kept = ProfileStore().get(bench.key())
    assert (kept.call_form, kept.source) == (ToolCallFormat.TEXT, "exam")
    assert kept.note == "measured: native: it writes its calls as text; text: works"
    assert result.kept == "kept for new sessions"


async def test_a_model_that_calls_only_under_a_schema_is_held_to_one(bench: Bench) -> None:
    result = await bench.examine(PaperModel(forms=frozenset({"schema"}), broken=frozenset({"text"})))
    assert result.call_form is ToolCallFormat.SCHEMA
    assert result.note == "native: it made no call; text: its call could not be read; schema: works"


@pytest.mark.parametrize("said", ["paper does not support tools", "unknown field: tools"])
async def test_a_server_that_refuses_tools_is_asked_in_text(bench: Bench, said: str) -> None:
    result = await bench.examine(PaperModel(refuses_tools=said))
    assert result.call_form is ToolCallFormat.TEXT
    assert said in result.note


async def test_one_that_calls_in_no_form_has_none_kept(bench: Bench) -> None:
    result = await bench.examine(PaperModel(frozenset(), refuses_schema=True))
    assert (result.call_form, result.kept) == (None, "nothing was kept")
    assert "response_format is not supported" in result.note
    assert ProfileStore().get(bench.key()) == ModelProfile()


async def test_it_is_found_again_whether_the_model_is_loaded_or_not(bench: Bench) -> None:
    model = PaperModel()
    await bench.start(bench.server, model)
    unloaded, loaded = ({"default_generation_settings": {"n_ctx": 8192}, "chat_template": text} for text in ("", "tools"))
    bench.server.answers["/props"] = lambda _: ok(loaded if model.asked else unloaded)
    await examine_named(Config(url=bench.server.url), "paper")
    found = await Servers(ModelConnection(Config(url=bench.server.url))).look(bench.server.url)
    assert found is not None
    assert found.models[0].template
    for served in (replace(found.models[0], template=""), found.models[0]):
        key = ModelKey(bench.server.url, "paper", served.quantisation, served.template)
        assert ProfileStore().get(key).call_form is ToolCallFormat.NATIVE


@pytest.mark.parametrize(
    ("status", "said", "text"),
    [(401, "no", "refuses the key"), (404, "model 'paper' not found", "has no model"), (500, "broken", "failed")],
)
async def test_a_fault_of_the_server_is_said(bench: Bench, status: int, said: str, text: str) -> None:
    await bench.start(bench.server, PaperModel())
    bench.server.answers["/v1/chat/completions"] = failed(status, said)
    with pytest.raises(ProviderError, match=text):
        await examine_named(Config(url=bench.server.url, max_retries=0), "paper")


async def test_what_was_set_by_hand_stays(bench: Bench) -> None:
    await bench.start(bench.server, PaperModel())
    known = ModelProfile(ToolCallFormat.SCHEMA, source=BY_HAND, note="you set it")
    ProfileStore().put(bench.key(), known)
    result = await examine_named(Config(url=bench.server.url), "paper")
    assert ProfileStore().get(bench.key()) == known
    assert "as you set it" in result.kept


async def test_a_dead_server_is_said() -> None:
    with pytest.raises(UsageError, match="no model server answers at"):
        await examine_named(Config(url="http://127.0.0.1:9"), "paper")


async def test_in_the_app_the_session_and_the_exam_know_the_same(open_one: Open, bench: Bench) -> None:
    await bench.start(bench.server, PaperModel())
    servers = open_one(bench.server.url).servers
    result = await servers.examine(bench.server.url, "paper")
    assert servers.known(bench.server.url, ServedModel("paper")).call_form is result.call_form is ToolCallFormat.NATIVE


async def test_a_model_file_that_does_not_run_is_not_examined() -> None:
    with pytest.raises(UsageError, match="does not run yet"):
        await Servers(ModelConnection(Config())).examine("gguf:", "phi")


ONE = ServerFound(
    "Ollama", "http://h:1", (ServedModel("qwen2.5:7b"), ServedModel("qwen3:8b"), ServedModel("e", is_embedder=True))
)


def test_a_model_is_meant_by_its_name_or_a_part_that_no_other_has() -> None:
    assert which_model([ONE], "qwen3:8b") == (ONE, "qwen3:8b")
    assert which_model([ONE], "QWEN3") == (ONE, "qwen3:8b")
    assert which_model([ONE, replace(ONE, url="http://h:2")], "qwen3:8b")[0].url == "http://h:1"


@pytest.mark.parametrize(
    ("name", "said"),
    [("qwen", "may be qwen2.5:7b, qwen3:8b"), ("llama", "has a model 'llama'"), ("e", "embeds only")],
)
def test_a_name_that_means_none_or_several_is_said(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        which_model([ONE], name)


def test_a_server_that_was_named_and_refuses_is_said_with_its_reason() -> None:
    locked = ServerFound("OpenAI-compatible", "http://h:1", (), "it wants a key")
    with pytest.raises(UsageError, match="it wants a key"):
        which_model([locked, ONE], "qwen3:8b", "http://h:1")
