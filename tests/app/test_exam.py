from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from lmtui.app.connection import ModelConnection
from lmtui.app.model_servers import Servers, examine_named, which_model
from lmtui.config import Config
from lmtui.core.errors import ProviderError, UsageError
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import BY_HAND, ExamResult, ModelKey, ModelProfile, ServedModel, ServerFound
from lmtui.store.model_profiles import ProfileStore
from tests.app.paper_model import PaperModel
from tests.models.fake_server import FakeServer, failed, listening, listing, ok
from tests.sets import for_each


@dataclass
class Bench:
    """Examines models of paper."""

    server: FakeServer

    def show(self, model: PaperModel) -> None:
        self.server.answers = {"/v1/models": ok(listing({"id": "paper"})), "/v1/chat/completions": model}

    async def examine(self, model: PaperModel) -> ExamResult:
        self.show(model)
        return await examine_named(Config(url=self.server.url, max_retries=0), "paper")

    def key(self) -> ModelKey:
        return ModelKey(self.server.url, "paper")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with listening(FakeServer(content_type="text/event-stream")) as server:
        server.url += "/v1"
        yield Bench(server)


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


@for_each("said", ["paper does not support tools", "unknown field: tools"])
async def test_a_server_that_refuses_tools_is_asked_in_text(bench: Bench, said: str) -> None:
    result = await bench.examine(PaperModel(refuses_tools=said))
    assert result.call_form is ToolCallFormat.TEXT
    assert said in result.note


async def test_one_that_calls_in_no_form_has_none_kept(bench: Bench) -> None:
    result = await bench.examine(PaperModel(frozenset(), refuses_schema=True))
    assert (result.call_form, result.kept) == (None, "nothing was kept")
    assert "response_format is not supported" in result.note
    assert ProfileStore().get(bench.key()) == ModelProfile()


async def test_faults_of_the_server_are_said(bench: Bench) -> None:
    bench.show(PaperModel())
    for status, said, text in (
        (401, "no", "refuses the key"),
        (404, "model 'paper' not found", "has no model"),
        (500, "broken", "failed"),
    ):
        bench.server.answers["/v1/chat/completions"] = failed(status, said)
        with pytest.raises(ProviderError, match=text):
            await examine_named(Config(url=bench.server.url, max_retries=0), "paper")
    with pytest.raises(UsageError, match="no model server answers at"):
        await examine_named(Config(url="http://127.0.0.1:9"), "paper")
    with pytest.raises(UsageError, match="does not run yet"):
        await Servers(ModelConnection(Config())).examine("gguf:", "phi")


async def test_what_was_set_by_hand_stays(bench: Bench) -> None:
    bench.show(PaperModel())
    known = ModelProfile(ToolCallFormat.SCHEMA, source=BY_HAND, note="you set it")
    ProfileStore().put(bench.key(), known)
    result = await examine_named(Config(url=bench.server.url), "paper")
    assert ProfileStore().get(bench.key()) == known
    assert "as you set it" in result.kept


ONE = ServerFound(
    "Ollama", "http://h:1", (ServedModel("qwen2.5:7b"), ServedModel("qwen3:8b"), ServedModel("e", is_embedder=True))
)


def test_a_model_is_meant_by_its_name_or_a_part_that_no_other_has() -> None:
    assert which_model([ONE], "qwen3:8b") == (ONE, "qwen3:8b")
    assert which_model([ONE], "QWEN3") == (ONE, "qwen3:8b")
    assert which_model([ONE, replace(ONE, url="http://h:2")], "qwen3:8b")[0].url == "http://h:1"
    locked = ServerFound("OpenAI-compatible", "http://h:1", (), "it wants a key")
    for found, name, url, said in (
        ([ONE], "qwen", "", "may be qwen2.5:7b, qwen3:8b"),
        ([ONE], "llama", "", "has a model 'llama'"),
        ([ONE], "e", "", "embeds only"),
        ([locked, ONE], "qwen3:8b", "http://h:1", "it wants a key"),
    ):
        with pytest.raises(UsageError, match=said):
            which_model(found, name, url)
