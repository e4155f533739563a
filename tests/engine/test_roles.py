from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.budgets import SessionBudget
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import ModelChanged, Notice, SessionRenamed, ToolCallFinished, UsageUpdated
from lmtui.core.messages import Image, ModelRequest, Priority, Role, StreamChunk, TextChunk, ToolCallFormat
from lmtui.core.permissions.rules import Mode
from lmtui.core.roles import ModelRole, RoleModel, Roles, parse_roles
from lmtui.core.servers import ServedModel
from lmtui.engine.subagent_runs import TeamParts
from lmtui.models.request_encoding import RequestWriter
from lmtui.store.session_logs import ImageFolder
from lmtui.tools.registry import child_tools
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

PNG = b"\x89PNG\r\n\x1a\n and more"
SHOT = Image("shot.png", "image/png", PNG)
MODELS = (
    ServedModel("model", 24_000, has_vision=False), ServedModel("eyes", 16_000, has_vision=True),
    ServedModel("big", 32_000, has_vision=False),
)  # fmt: skip
PLANNER = parse_roles(["planner: big temperature=0.1"])
VISION = parse_roles(["vision: eyes"])


class Server(FakeProvider):
    """A server that tells of its models."""

    def __init__(self, *answers: Sequence[StreamChunk | Exception | float], models: Sequence[ServedModel] = MODELS) -> None:
        super().__init__(*answers)
        self.models = {each.name: each for each in models}

    async def served(self, model: str) -> ServedModel | None:
        return self.models.get(model)


def look() -> list[StreamChunk]:
    return answer("", ("look", '{"path": "shot.png"}'))


def rig_with(server: Server, folder: Path, roles: Roles | None = None, **more: Any) -> Rig:
    rig = Rig(server, FakeSandbox({"shot.png": PNG}), images=ImageFolder(folder / "s.images"), roles=roles, **more)
    rig.session.prepare(is_eager=False)
    return rig


def asked(rig: Rig) -> list[str]:
    return [request.model for request in rig.provider.requests]


def tools(request: ModelRequest) -> list[str]:
    return [spec.name for spec in request.tools]


def shown(request: ModelRequest) -> list[int]:
    """Return how many pictures each message of the body holds."""
    body = json.loads(RequestWriter().write(request))
    contents = [message["content"] for message in body["messages"]]
    return [sum(part["type"] == "image_url" for part in content) if isinstance(content, list) else 0 for content in contents]


async def test_plan_mode_asks_the_planner_and_then_the_sessions_own_model_again_which_the_user_may_choose(
    tmp_path: Path,
) -> None:
    rig = await ran(rig_with(Server(), tmp_path, PLANNER, mode=Mode.PLAN), "plan it")
    rig.session.set_mode(Mode.AUTO)
    await rig.run("do it")
    assert (asked(rig), [request.temperature for request in rig.provider.requests]) == (["big", "model"], [0.1, None])
    changes = [(each.model, each.role, each.window_tokens) for each in seen(rig, ModelChanged)]
    assert changes[-4:] == [("big", "planner", 0), ("big", "planner", 32_000), ("model", "", 0), ("model", "", 24_000)]
    assert [each.miss for each in seen(rig, UsageUpdated)][1] == "model changed"
    rig = await ran(rig_with(Server(), tmp_path, PLANNER, mode=Mode.PLAN))
    rig.session.set_model("eyes")
    await rig.run()
    rig.session.set_mode(Mode.AUTO)
    await rig.run()
    assert asked(rig) == ["big", "big", "eyes"]


class Sending(Server):
    """Sends a sub-agent that explores, and then the sub-agent reports."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        if request.urgency is Priority.SUBAGENT:
            self.answers = [answer("", ("report_result", '{"status": "ok", "summary": "seen"}'))]
        elif len(request.messages) <= 3:
            self.answers = [answer("", ("explore", '{"question": "what?"}'))]
        async for piece in super().stream(request):
            yield piece


async def exploring(roles: Roles, mode: Mode = Mode.AUTO, models: Sequence[ServedModel] = MODELS) -> Rig:
    rig = Rig(Sending(models=models), roles=roles, mode=mode, team=TeamParts(partial(child_tools, ""), max_depth=1))
    rig.session.prepare(is_eager=False)
    return await ran(rig, "look around")


@for_each(("models", "analyst", "most"), [(MODELS, "big", 700), (MODELS[:1], "model", 900)])
async def test_who_explores_is_the_analyst_with_its_own_settings(
    models: Sequence[ServedModel], analyst: str, most: int
) -> None:
    roles = parse_roles(["analyst: big temperature=0.1 max_completion=700", "coder: max_completion=900"])
    rig = await exploring(roles, models=models)
    assert asked(rig) == ["model", analyst, "model"]
    assert {(request.model, request.max_tokens) for request in rig.provider.requests} == {("model", 900), (analyst, most)}


async def test_a_model_that_the_server_lacks_is_passed_over_once_and_where_it_tells_of_none_asked_all_the_same(
    tmp_path: Path,
) -> None:
    rig = await ran(rig_with(Server(models=MODELS[:1]), tmp_path, PLANNER, mode=Mode.PLAN))
    await rig.run()
    assert asked(rig) == ["model", "model"]
    notices = [each.text for each in seen(rig, Notice) if "planner" in each.text]
    assert notices == ["http://fake/v1 does not offer big, the model for the role planner; model is asked in its place."]
    rig = await ran(rig_with(Server(models=()), tmp_path, PLANNER, mode=Mode.PLAN))
    assert asked(rig) == ["big"]


async def test_a_turn_with_pictures_asks_the_model_that_sees_or_looks_through_it_or_the_user_is_told(tmp_path: Path) -> None:
    rig = rig_with(Server(), tmp_path, VISION)
    rig.session.submit("what is this?", images=[SHOT])
    await rig.session.wait_idle()
    await rig.run("and now?")
    assert (asked(rig), [sum(shown(request)) for request in rig.provider.requests]) == (["eyes", "model"], [1, 0])
    assert b"the picture shot.png is not shown" in RequestWriter().write(rig.provider.requests[1])
    assert not [each for each in seen(rig, Notice) if "sees no pictures" in each.text]
    rig = await ran(rig_with(Server(look()), tmp_path, VISION), "look at shot.png")
    assert asked(rig) == ["model", "eyes"]
    assert "look" in tools(rig.provider.requests[0])
    assert shown(rig.provider.requests[1])[-1] == 1
    rig = rig_with(Server(), tmp_path)
    rig.session.submit("what is this?", images=[SHOT])
    await rig.session.wait_idle()
    assert [each.text for each in seen(rig, Notice)][-1].startswith("model sees no pictures")
    assert sum(shown(rig.provider.requests[0])) == 0


@for_each(("sees", "vision", "told"), [
    (True, None, True), (False, None, False), (None, None, False), (False, True, True), (True, False, False),
])  # fmt: skip
async def test_only_a_model_that_is_known_to_see_or_said_to_is_told_of_looking(
    tmp_path: Path, sees: bool | None, vision: bool | None, told: bool
) -> None:
    rig = await ran(rig_with(Server(models=[ServedModel("model", has_vision=sees)]), tmp_path, vision=vision))
    assert ("look" in tools(rig.provider.requests[0])) is told


async def test_a_picture_comes_right_behind_the_results_of_its_message_and_in_text_with_them(tmp_path: Path) -> None:
    server = Server(answer("", ("look", '{"path": "shot.png"}'), ("ls", "{}")), models=[ServedModel("model", has_vision=True)])
    rig = await ran(rig_with(server, tmp_path))
    body = json.loads(RequestWriter().write(rig.provider.requests[1]))
    assert [message["role"] for message in body["messages"]][-5:] == ["assistant", "tool", "tool", "assistant", "user"]
    assert shown(rig.provider.requests[1])[-4:] == [0, 0, 0, 1]
    assert [ref.name for ref in seen(rig, ToolCallFinished)[0].images] == ["shot.png"]
    rig = rig_with(Server(look(), models=[ServedModel("model", has_vision=True)]), tmp_path)
    rig.session.use_call_form(ToolCallFormat.TEXT)
    await rig.run()
    body = json.loads(RequestWriter().write(rig.provider.requests[1]))
    assert [message["role"] for message in body["messages"]][-2:] == ["assistant", "user"]
    assert "<tool_response>" in body["messages"][-1]["content"][0]["text"]
    assert shown(rig.provider.requests[1])[-1] == 1


async def test_a_resumed_session_holds_the_same_pictures_and_none_is_sent_twice(tmp_path: Path) -> None:
    rig = await ran(rig_with(Server(look()), tmp_path, VISION), "look at shot.png")
    again = await ran(rig_with(Server(), tmp_path, VISION, past=rig.log.events), "go on")
    first, second = rig.provider.requests[-1], again.provider.requests[0]
    assert (second.messages[: len(first.messages)], asked(again)) == (first.messages, ["model"])
    assert [message.images for message in second.messages if message.role is Role.TOOL] == [(SHOT,)]
    rig = await ran(rig_with(Server(look(), look(), models=[ServedModel("model", has_vision=True)]), tmp_path))
    assert sum(shown(rig.provider.requests[2])) == 1


NAMED: Roles = {ModelRole.TITLE: RoleModel("small", repeat_penalty=1.1)}


def titles(rig: Rig) -> list[str]:
    return [event.title for event in seen(rig, SessionRenamed)]


async def later(rig: Rig, count: int) -> None:
    """Wait until so many requests were answered."""
    while len(rig.provider.requests) < count or rig.provider.open_streams:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("said", [
    answer("x" * 200), answer("a title of no more than six words"), answer(""), [ProviderError(Fault.SERVER_ERROR, "no")],
])  # fmt: skip
async def test_what_is_no_title_is_passed_over(said: list[StreamChunk | Exception | float]) -> None:
    rig = await ran(Rig(FakeProvider(answer("done"), said), roles=NAMED), "mend it")
    await later(rig, 2)
    assert titles(rig) == ["mend it"]


async def test_a_name_that_the_user_gave_stays_though_a_title_comes_meanwhile() -> None:
    rig = Rig(FakeProvider(answer("done")), roles=NAMED)
    rig.session.submit("mend it")
    rig.session.rename("mine")
    await rig.session.wait_idle()
    await later(rig, 1)
    assert (titles(rig)[-1], len(rig.provider.requests)) == ("mine", 1)
    rig = await ran(Rig(FakeProvider(answer("done"), [0.05, *answer("Mend the lexer")]), roles=NAMED), "mend it")
    rig.session.rename("mine")
    await later(rig, 2)
    assert titles(rig) == ["mend it", "mine"]


async def test_model_for_titles_names_a_session_once_and_within_its_budget() -> None:
    roles = {ModelRole.TITLE: replace(NAMED[ModelRole.TITLE], max_completion=77)}
    rig = Rig(FakeProvider(answer("It is mended."), answer('"Mend the lexer"\nand more'), answer("more")), roles=roles)
    await rig.run("please mend the lexer, it drops comments")
    await later(rig, 2)
    assert titles(rig) == ["please mend the lexer, it drops comments", "Mend the lexer"]
    asked = rig.provider.requests[1]
    assert (asked.model, asked.urgency, asked.tools) == ("small", Priority.BACKGROUND, ())
    assert (asked.repeat_penalty, asked.max_tokens) == (1.1, 77)
    costs = [(each.agent, each.model, each.elapsed_s) for each in seen(rig, UsageUpdated)]
    assert costs == [("root", "model", 0.6), ("title", "small", 0.6)]
    await rig.run("go on")
    await later(rig, 3)
    assert len(rig.provider.requests) == 3
    rig = Rig(FakeProvider(answer("It is mended."), answer("Mend the lexer")), roles=NAMED)
    rig.session.set_budget(SessionBudget(steps=5, tokens=1000))
    await rig.run("mend the lexer")
    await later(rig, 2)
    spent = rig.session.budget()[1]
    assert (spent.steps, spent.tokens) == (2, 22)  # of 10 tokens 4 are cached, 5 written, twice
    assert titles(rig)[-1] == "Mend the lexer"
    used = Rig(FakeProvider(answer("It is mended."), answer("Mend the lexer")), roles=NAMED)
    used.session.set_budget(SessionBudget(steps=1))
    await used.run("mend the lexer")
    await later(used, 1)
    assert len(used.provider.requests) == 1


async def test_a_model_that_thinks_has_room_before_a_title_and_one_that_goes_on_behind_it_is_stopped() -> None:
    rig = await ran(Rig(FakeProvider(answer("done"), answer("Mend the lexer")), roles=NAMED), "mend it")
    await later(rig, 2)
    assert (rig.provider.requests[1].max_tokens or 0) >= 1_000
    assert titles(rig) == ["mend it", "Mend the lexer"]
    endless = [TextChunk("and so on ") for _ in range(1_000)]
    rig = await ran(Rig(FakeProvider(answer("done"), endless), roles=NAMED), "mend it")
    await later(rig, 2)
    assert (rig.provider.open_streams, titles(rig)) == (0, ["mend it"])
