from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lmtui.app.connection import ModelConnection
from lmtui.app.model_servers import Servers, examine_named, which_model
from lmtui.config import Config
from lmtui.core.errors import UsageError
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import BY_HAND, ExamRow, ExamState, Grade, ModelKey, ModelProfile, ServedModel, ServerFound
from lmtui.store.model_profiles import ProfileStore
from tests.app.conftest import Open
from tests.app.paper_model import PaperModel
from tests.models.fake_server import FakeServer, failed, listing, ok


@dataclass
class Bench:
    """Examines models of paper; `states` are all steps of the last exam."""

    start: Callable[..., Any]
    states: list[ExamState] = field(default_factory=list)
    server: FakeServer = field(default_factory=FakeServer)

    async def examine(self, model: PaperModel, **listed: Any) -> ExamState:
        await self.start(self.server, model, **listed)
        config = Config(url=self.server.url, max_retries=0)
        return await examine_named(config, "paper", self.states.append)

    def key(self) -> ModelKey:
        return ModelKey(self.server.url, "paper")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    listeners: list[asyncio.Server] = []

    async def start(server: FakeServer, model: PaperModel, **listed: Any) -> None:
        server.content_type = "text/event-stream"
        server.answers = {"/v1/models": ok(listing({"id": "paper", **listed})), "/v1/chat/completions": model}
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        listeners.append(listener)
        server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"

    yield Bench(start)
    for listener in listeners:
        listener.close()
        await listener.wait_closed()


def row(state: ExamState, name: str) -> ExamRow:
    return next(each for each in state.rows if each.name == name)


async def test_a_model_that_calls_natively_is_asked_in_no_other_form(bench: Bench) -> None:
    model = PaperModel()
    state = await bench.examine(model, max_model_len=16_384)
    assert state.profile.call_form is ToolCallFormat.NATIVE
    assert state.profile.edit_form == "exact"
    assert row(state, "calls, native").text == "3 of 3 tasks right, calls: 3 structured"
    assert "schema" not in model.asked
    assert model.asked.count("text") == 2
    assert not state.has_failed


async def test_the_result_is_the_profile_that_sessions_begin_with(bench: Bench) -> None:
    state = await bench.examine(PaperModel(forms=frozenset({"text"}), as_text=True))
    kept = ProfileStore().get(bench.key())
    assert kept.call_form is ToolCallFormat.TEXT
    assert kept.source == "exam"
    assert kept.note.startswith("measured: text 3 of 3")
    assert kept.token_ratio > 0
    assert state.kept.startswith("kept in ")
    assert state.is_over


async def test_a_model_that_calls_only_in_text_is_told_of_tools_in_text(bench: Bench) -> None:
    state = await bench.examine(PaperModel(forms=frozenset({"text"}), as_text=True), max_model_len=16_384)
    assert state.profile.call_form is ToolCallFormat.TEXT
    assert "it writes its calls as text" in row(state, "calls, native").text
    assert row(state, "calls, text").grade is Grade.GOOD


async def test_a_model_that_calls_only_under_a_schema_is_held_to_one(bench: Bench) -> None:
    model = PaperModel(forms=frozenset({"schema"}), broken=frozenset({"text"}))
    state = await bench.examine(model, max_model_len=16_384)
    assert state.profile.call_form is ToolCallFormat.SCHEMA
    assert "malformed" in row(state, "calls, text").text
    assert row(state, "calls, schema").text == "3 of 3 tasks right, calls: 3 read"


@pytest.mark.parametrize("said", ["paper does not support tools", "unknown field: tools"])
async def test_a_server_that_refuses_tools_is_asked_in_text(bench: Bench, said: str) -> None:
    state = await bench.examine(PaperModel(refuses_tools=said), max_model_len=16_384)
    assert state.profile.call_form is ToolCallFormat.TEXT
    assert row(state, "calls, native").grade is Grade.WEAK
    assert not state.has_failed


async def test_a_server_that_refuses_a_schema_has_a_row_for_that(bench: Bench) -> None:
    state = await bench.examine(PaperModel(frozenset(), refuses_schema=True))
    assert "the server takes no JSON schema" in row(state, "calls, schema").text
    assert row(state, "calls").text == "in no form of calls was a task done"
    assert state.has_failed
    assert state.profile.call_form is None


async def test_a_model_that_thinks_gets_room_to(bench: Bench) -> None:
    state = await bench.examine(PaperModel(thinking="hmm, let me see"), max_model_len=16_384)
    assert state.profile.thinks is True
    bodies = [body for _, body in bench.server.posted]
    assert {body["max_tokens"] for body in bodies if "tools" in body} == {1200}


async def test_one_that_misquotes_a_file_writes_files_anew(bench: Bench) -> None:
    state = await bench.examine(PaperModel(misquotes=True), max_model_len=16_384)
    assert state.profile.edit_form == "whole"
    assert row(state, "edits").grade is Grade.WEAK


async def test_it_is_found_again_whether_the_model_is_loaded_or_not(bench: Bench) -> None:
    model = PaperModel()
    await bench.start(bench.server, model)
    unloaded, loaded = ({"default_generation_settings": {"n_ctx": 8192}, "chat_template": text} for text in ("", "tools"))
    bench.server.answers["/props"] = lambda _: ok(loaded if model.asked else unloaded)
    await examine_named(Config(url=bench.server.url), "paper", bench.states.append)
    found = await Servers(ModelConnection(Config(url=bench.server.url))).look(bench.server.url)
    assert found is not None
    assert found.models[0].template
    for served in (replace(found.models[0], template=""), found.models[0]):
        key = ModelKey(bench.server.url, "paper", served.quantisation, served.template)
        assert ProfileStore().get(key).call_form is ToolCallFormat.NATIVE


async def test_a_model_that_answers_nothing_is_a_row(bench: Bench) -> None:
    state = await bench.examine(PaperModel(is_silent=True))
    assert [(each.name, each.grade, each.text) for each in state.rows] == [
        ("answers", Grade.FAILED, "the model answers nothing")
    ]
    assert state.kept == "nothing was kept"


@pytest.mark.parametrize(
    ("status", "said", "text"),
    [(401, "no", "refuses the key"), (404, "model 'paper' not found", "has no model"), (500, "broken", "failed (HTTP 500")],
)
async def test_a_fault_of_the_server_is_a_row(bench: Bench, status: int, said: str, text: str) -> None:
    model = PaperModel()
    await bench.start(bench.server, model)
    bench.server.answers["/v1/chat/completions"] = failed(status, said)
    state = await examine_named(Config(url=bench.server.url, max_retries=0), "paper", bench.states.append)
    assert state.has_failed
    assert text in state.rows[-1].text


async def test_what_was_set_by_hand_stays(bench: Bench) -> None:
    await bench.start(bench.server, PaperModel())
    ProfileStore().put(bench.key(), ModelProfile(ToolCallFormat.SCHEMA, source=BY_HAND, note="you set it"))
    state = await examine_named(Config(url=bench.server.url), "paper", bench.states.append)
    kept = ProfileStore().get(bench.key())
    assert (kept.call_form, kept.source, kept.note) == (ToolCallFormat.SCHEMA, BY_HAND, "you set it")
    assert kept.edit_form == "exact"
    assert "as you set it" in state.kept


async def test_an_exam_that_is_stopped_keeps_what_it_has(bench: Bench) -> None:
    await bench.start(bench.server, PaperModel())
    begun = asyncio.Event()

    def watch(state: ExamState) -> None:
        bench.states.append(state)
        if state.doing.startswith("calls"):
            begun.set()

    exam = asyncio.create_task(examine_named(Config(url=bench.server.url), "paper", watch))
    await begun.wait()
    exam.cancel()
    with pytest.raises(asyncio.CancelledError):
        await exam
    last = bench.states[-1]
    assert last.is_over
    assert last.kept.startswith("kept in ")
    assert last.profile.call_form is None
    assert ProfileStore().get(bench.key()).write_tokens_per_s == last.profile.write_tokens_per_s > 0


async def test_a_dead_server_is_said() -> None:
    with pytest.raises(UsageError, match="no model server answers at"):
        await examine_named(Config(url="http://127.0.0.1:9"), "paper", lambda _: None)


async def test_in_the_app_the_session_and_the_exam_know_the_same(open_one: Open, bench: Bench) -> None:
    await bench.start(bench.server, PaperModel())
    servers = open_one(bench.server.url).servers
    state = await servers.examine(bench.server.url, "paper", bench.states.append)
    assert servers.known(bench.server.url, ServedModel("paper")).call_form is state.profile.call_form is ToolCallFormat.NATIVE


async def test_a_model_file_that_does_not_run_is_not_examined() -> None:
    with pytest.raises(UsageError, match="does not run yet"):
        await Servers(ModelConnection(Config())).examine("gguf:", "phi", lambda _: None)


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
