from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from lmtui.app.model_servers import examine_named
from lmtui.config import Config
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import BY_HAND, ExamResult, ModelKey, ModelProfile
from lmtui.store.model_profiles import ProfileStore
from tests.app.paper_model import PaperModel
from tests.models.fake_server import FakeServer, listening, listing, ok
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


async def test_what_was_set_by_hand_stays(bench: Bench) -> None:
    bench.show(PaperModel())
    known = ModelProfile(ToolCallFormat.SCHEMA, source=BY_HAND, note="you set it")
    ProfileStore().put(bench.key(), known)
    result = await examine_named(Config(url=bench.server.url), "paper")
    assert ProfileStore().get(bench.key()) == known
    assert "as you set it" in result.kept
