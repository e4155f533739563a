from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lmtui.core.errors import ContextOverflow
from lmtui.core.events import Level, ModelChanged, Notice, PlanChanged, PrefillProgress, UsageUpdated
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, Timings, ToolCall, Usage
from lmtui.core.model_events import Compacted, ToolSetChanged
from lmtui.core.plan import Plan, PlanStep, adopt_steps
from lmtui.core.servers import ModelKey, ModelProfile, ServedModel
from lmtui.engine.context_fit import choose_tools
from tests.engine.seen import ran, seen
from tests.engine.test_compaction import prompt_tokens
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each


class CountingModel(FakeProvider):
    """Reads a large file at every step but the last; counts like a server of its own, of which `window` tokens are read."""

    def __init__(self, steps: int, window: int = 1_000_000, *, only_new: bool = False) -> None:
        super().__init__()
        self.steps, self.window, self.only_new = steps, window, only_new
        self.counted = 0
        self.timings: Timings | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        self.requests.append(request)
        count = prompt_tokens(request)
        told = count - self.counted if self.only_new else min(count, self.window)
        self.counted = count
        call = ToolCall(f"call_{len(self.requests)}", "read", f'{{"path": "a{len(self.requests)}.txt"}}')
        calls = () if len(self.requests) % self.steps == 0 else (call,)
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        message = Message(Role.ASSISTANT, "so", "", calls)
        yield Completion(message, reason, Usage(told, 21), 2.0, 1.0, timings=self.timings)

    async def served(self, model: str) -> ServedModel | None:
        return ServedModel("model", 0)


@dataclass
class KeptProfiles:
    """Profiles in memory."""

    kept: dict[ModelKey, ModelProfile] = field(default_factory=dict)

    def get(self, key: ModelKey) -> ModelProfile:
        return self.kept.get(key, ModelProfile())

    def put(self, key: ModelKey, profile: ModelProfile) -> None:
        self.kept[key] = profile


def rig_for(model: CountingModel, window: int = 65_536, **more: Any) -> Rig:
    rig = Rig(model, FakeSandbox({f"a{number}.txt": b"some words in a line\n" * 300 for number in range(20)}), **more)
    if window:
        rig.session.emit(ModelChanged(model="model", url=model.url, window_tokens=window))
    return rig


def errors(rig: Rig) -> list[str]:
    return [event.text for event in seen(rig, Notice) if event.level is Level.ERROR]


async def test_each_request_says_how_its_prompt_was_read_and_the_wait_is_announced_once_the_speed_is_known() -> None:
    rig = await ran(rig_for(CountingModel(4)))
    first, *others = seen(rig, UsageUpdated)
    assert (first.miss, first.reused_tokens, first.turn_id, first.read_s) == ("first request", 0, "turn_1", 2.0)
    for before, after in zip(seen(rig, UsageUpdated), others, strict=False):
        assert (after.miss, after.reread_tokens, after.reused_tokens) == ("", 0, before.usage.prompt_tokens)
    rig = await ran(rig_for(CountingModel(3)))
    told = seen(rig, PrefillProgress)
    assert [event.estimate_s > 0 for event in told] == [False, True, True]
    added = seen(rig, UsageUpdated)[2].usage.prompt_tokens - seen(rig, UsageUpdated)[1].usage.prompt_tokens
    assert abs(told[2].tokens - added) < 0.15 * added


@pytest.mark.parametrize(("model", "count"), [
    (CountingModel(1, window=300), 1), (CountingModel(8, only_new=True), 0), (CountingModel(8), 0),
], ids=["less than half was counted", "only what is read anew is counted", "honest counts"])  # fmt: skip
async def test_only_a_count_that_leaves_something_out_is_an_error(model: CountingModel, count: int) -> None:
    assert len(errors(await ran(rig_for(model)))) == count


async def test_the_servers_own_times_count_and_a_prompt_that_it_cut_in_silence_is_an_error() -> None:
    model = CountingModel(1)
    model.timings = Timings(900, 1.5, 100, 21, 0.5)
    rig = await ran(rig_for(model))
    assert (
        seen(rig, UsageUpdated)[0].read_s,
        (seen(rig, UsageUpdated)[0].is_cache_told, seen(rig, UsageUpdated)[0].reused_tokens),
    ) == (1.5, (True, 100))
    assert rig.session.window_use.read_s(1200) == pytest.approx(2.0)
    rig = await ran(rig_for(CountingModel(12, window=4096)))
    (text,) = errors(rig)
    assert "counted 4,096 of about" in text
    assert "context length" in text


@for_each(("setting", "window", "speed", "size_bytes", "tools"), [
    ("auto", 0, 0, 0, "full"), ("auto", 32_768, 0, 0, "full"), ("auto", 12_000, 0, 0, "full"), ("auto", 11_999, 0, 0, "lean"),
    ("auto", 32_768, 199, 0, "lean"), ("auto", 32_768, 200, 0, "full"), ("full", 2048, 10, 0, "full"),
    ("lean", 100_000, 0, 0, "lean"), ("auto", 32_768, 0, 1_900_000_000, "lean"), ("auto", 32_768, 0, 2_490_000_000, "full"),
    ("auto", 32_768, 900, 1_900_000_000, "full"),
])  # fmt: skip
def test_the_set_of_tools_follows_window_speed_setting_and_the_size_of_a_model_of_unknown_speed(
    setting: str, window: int, speed: float, size_bytes: int, tools: str
) -> None:
    assert choose_tools(setting, window, speed, size_bytes)[0] == tools


@for_each("ratio", [2.57, 0.5])
async def test_a_ratio_of_other_text_accuses_no_server_and_is_corrected(ratio: float) -> None:
    profiles = KeptProfiles({ModelKey("http://fake/v1", "model"): ModelProfile(token_ratio=ratio)})
    for _ in range(6):
        rig = rig_for(CountingModel(4), 0, profiles=profiles)
        rig.session.prepare(is_eager=False)
        await rig.run()
        await rig.session.close()
        assert errors(rig) == []
    (kept,) = profiles.kept.values()
    assert 1.1 < kept.token_ratio < 1.5


async def test_a_window_that_was_only_guessed_from_a_refusal_is_not_kept() -> None:
    for told, kept in ((0, 0), (900, 900)):
        profiles = KeptProfiles()
        model = FakeProvider([ContextOverflow("too large", window_tokens=told)], answer("fine"))
        rig = Rig(model, profiles=profiles)
        rig.session.prepare(is_eager=False)
        await rig.run()
        assert max((each.window_tokens for each in profiles.kept.values()), default=0) == kept


PLAN = adopt_steps(Plan(), (PlanStep(1, "look at it"),))


def sets(rig: Rig) -> list[str]:
    return [event.tools for event in seen(rig, ToolSetChanged)]


async def test_a_small_window_gets_few_tools_keeps_them_and_more_for_long_work_when_room_is_made() -> None:
    model = CountingModel(2)
    rig = await ran(rig_for(model, 8192))
    rig.session.emit(ModelChanged(model="model", url=model.url, window_tokens=60_000))
    await rig.run()
    assert [event.tools for event in seen(rig, ToolSetChanged)] == ["lean"]
    assert {len(request.tools) for request in model.requests} == {6}
    assert len({request.messages[0].text for request in model.requests}) == 1
    rig.session.emit(ModelChanged(model="larger", url=model.url, window_tokens=60_000))
    await rig.run()
    assert len(model.requests[-1].tools) > 12
    replayed = await ran(Rig(FakeProvider(), past=rig.log.events), "more")
    assert replayed.provider.requests[-1].messages[0] == model.requests[-1].messages[0]
    assert replayed.provider.requests[-1].tools == model.requests[-1].tools
    model = CountingModel(12)
    rig = await ran(rig_for(model, 8192))
    assert rig.of("compacted")
    assert sets(rig) == ["lean", "long"]
    first = next(place for place, event in enumerate(rig.events) if isinstance(event, Compacted))
    assert isinstance(rig.events[first + 1], ToolSetChanged)
    before, after = ([tool.name for tool in request.tools] for request in (model.requests[0], model.requests[-1]))
    assert after[: len(before)] != after
    assert {"todo_add", "task_state_update", "delegate"} <= set(after) - set(before)
    assert model.requests[-1].messages[0].text.startswith(model.requests[0].messages[0].text)
    await rig.run("go on")
    assert sets(rig) == ["lean", "long"]


@pytest.mark.parametrize(("window", "setting"), [(1_500, "auto"), (8_192, "lean"), (60_000, "auto")])
async def test_neither_where_there_is_no_room_nor_against_the_settings(window: int, setting: str) -> None:
    model = CountingModel(2)
    rig = await ran(rig_for(model, window, tools=setting))
    rig.session.emit(PlanChanged(plan=PLAN))
    await rig.run("carry it out")
    assert "long" not in sets(rig)
