from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import ModelChanged, Notice, UsageUpdated
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, ToolCall, Usage
from lmtui.core.model_events import Compacted
from lmtui.core.roles import ModelRole, RoleModel, Roles
from lmtui.core.servers import ServedModel
from tests.engine.seen import ending, ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

OWN = "The user wants every part read. Parts 1 to 9 hold the number 7, nothing failed, part 10 comes next."


class Reader(FakeProvider):
    """Reads one file after the other; asked for a summary it answers with `own`, or as `own` says."""

    def __init__(self, steps: int, own: str | ToolCall | Exception = OWN, *, thinking: str = "") -> None:
        super().__init__()
        self.steps, self.own, self.thinking = steps, own, thinking
        self.asked: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        count = sum(len(each.text) + sum(len(call.arguments) for call in each.tool_calls) for each in request.messages) // 4
        if "lmtui makes room" in request.messages[-1].text:
            self.asked.append(request)
            if isinstance(self.own, Exception):
                raise self.own
            calls = (self.own,) if isinstance(self.own, ToolCall) else ()
            text = "" if calls else str(self.own)
            yield Completion(Message(Role.ASSISTANT, text, "", calls), FinishReason.STOP, Usage(count, 20), 0.1, 0.1)
            return
        self.requests.append(request)
        made = len(self.requests)
        calls = (ToolCall(f"c{made}", "read", json.dumps({"path": f"part{made}.txt"})),) if made % self.steps else ()
        yield Completion(
            Message(Role.ASSISTANT, f"step {made}", self.thinking, calls), FinishReason.STOP, Usage(count, 20), 0.1, 0.1
        )


def rig_for(provider: Reader, *, roles: Roles | None = None, compact_at: int = 0) -> Rig:
    files = {f"part{number}.txt": f"the number is {number}\n".encode() * 40 for number in range(1, 400)}
    rig = Rig(provider, FakeSandbox(files), asks_for_summaries=True, roles=roles, compact_at=compact_at)
    rig.session.emit(ModelChanged(model="model", url=provider.url, window_tokens=4096))
    return rig


def compacted(rig: Rig) -> list[Compacted]:
    return seen(rig, Compacted)


async def test_model_is_asked_seldom_and_its_words_stand_in_the_summary() -> None:
    provider = Reader(150)
    rig = await ran(rig_for(provider))
    assert 1 <= len(provider.asked) <= len(provider.requests) / 20
    assert sum(OWN in event.summary for event in compacted(rig)) == len(provider.asked)
    assert any("files you read" in event.summary for event in compacted(rig))
    later = provider.requests[-1].messages
    assert later[0].role is Role.SYSTEM
    assert later[1].text.startswith("do it")


async def test_request_for_a_summary_begins_with_what_the_server_has_read() -> None:
    provider = Reader(150)
    await rig_for(provider).run()
    asked = provider.asked[0]
    before = next(each for each in reversed(provider.requests) if asked.messages[: len(each.messages)] == each.messages)
    assert asked.tools == before.tools
    assert len(asked.messages) - len(before.messages) <= 4
    assert asked.max_tokens


@pytest.mark.parametrize(
    "own", ["", "too short", ToolCall("x", "read", '{"path": "part1.txt"}'), ProviderError(Fault.SERVER_ERROR, "no")]
)
async def test_without_an_answer_the_log_tells_what_happened(own: str | ToolCall | Exception) -> None:
    provider = Reader(60, own)
    rig = await ran(rig_for(provider))
    assert ending(rig).exit_code == 0
    assert provider.asked
    summaries = [event.summary for event in compacted(rig) if event.summary]
    assert summaries
    assert [summary for summary in summaries if "in your own words" in summary] == []
    assert any("files you read" in summary for summary in summaries)


async def test_summariser_is_asked_where_one_is_named() -> None:
    provider = Reader(60)
    rig = await ran(rig_for(provider, roles={ModelRole.SUMMARISER: RoleModel("small", max_completion=60)}))
    assert {(request.model, request.max_tokens) for request in provider.asked} == {("small", 60)}
    assert {request.model for request in provider.requests} == {"model"}
    misses = {each.miss for each in seen(rig, UsageUpdated)}
    assert "model changed" not in misses, "what another model reads says nothing of this one's cache"


class Listing(Reader):
    """Tells of the session's own model, and of no other."""

    async def served(self, model: str) -> ServedModel | None:
        return ServedModel("model", 4096) if model in ("", "model") else None


async def test_a_summariser_that_is_not_there_is_said_and_the_sessions_own_model_is_asked() -> None:
    provider = Listing(150)
    rig = rig_for(provider, roles={ModelRole.SUMMARISER: RoleModel("small")})
    rig.session.prepare(is_eager=False)
    await rig.run()
    assert {request.model for request in provider.asked} == {"model"}
    told = [each.text for each in seen(rig, Notice) if "the role summariser" in each.text]
    assert len(told) == 1


async def test_user_sums_up_with_what_matters_to_them() -> None:
    provider = Reader(6)
    rig = await ran(rig_for(provider))
    rig.session.waiting.make_room("the port numbers")
    await rig.session.wait_idle()
    assert "What matters most: the port numbers" in provider.asked[0].messages[-1].text
    assert compacted(rig)[-1].why == "you asked for it"
    assert OWN in compacted(rig)[-1].summary
    assert len(rig.of("turn_started")) == 1
    await rig.run("and now?")
    assert OWN in provider.requests[-1].messages[1].text


async def test_nothing_to_sum_up_is_said() -> None:
    rig = await ran(Rig(FakeProvider(answer("hello"))))
    rig.session.waiting.make_room()
    await rig.session.wait_idle()
    assert "nothing that could be summed up" in [event.text for event in seen(rig, Notice)][-1]
    assert len(rig.provider.requests) == 1


async def test_room_is_made_in_the_middle_of_a_turn() -> None:
    provider = Reader(12)
    rig = rig_for(provider)
    rig.session.submit("read them all")
    while len(provider.requests) < 5:
        await asyncio.sleep(0)
    rig.session.waiting.make_room("numbers")
    await rig.session.wait_idle()
    assert (compacted(rig)[0].why, len(rig.of("turn_ended"))) == ("you asked for it", 1)


async def test_threshold_makes_room_in_a_large_window() -> None:
    provider = Reader(40)
    rig = rig_for(provider, compact_at=3000)
    rig.session.emit(ModelChanged(model="model", url=provider.url, window_tokens=200_000))
    await rig.run()
    assert "3,000 tokens were in use" in compacted(rig)[0].why
    assert compacted(rig)[0].tokens_after < 3000


@pytest.mark.parametrize(("thinks", "named", "has_room"), [(True, False, True), (False, False, False), (False, True, True)])
async def test_a_model_that_may_think_has_room_for_it_before_a_summary(*, thinks: bool, named: bool, has_room: bool) -> None:
    provider = Reader(60, thinking="hmm" if thinks else "")
    await rig_for(provider, roles={ModelRole.SUMMARISER: RoleModel("small")} if named else None).run()
    plain = Reader(60)
    await rig_for(plain).run()
    least = plain.asked[0].max_tokens or 0
    assert ((provider.asked[0].max_tokens or 0) > least) == has_room
