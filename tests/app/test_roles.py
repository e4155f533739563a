from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.app.connection import ModelConnection
from lmtui.app.host import asks_for_title
from lmtui.app.model_servers import is_one_model
from lmtui.config import Config
from lmtui.core.events import ModelChanged, Notice, ToolCallFinished
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.app.conftest import DONE, Open, Serve, run

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

LOOK = ScriptedTurn("I look.", calls=(ScriptedCall("look", {"path": "shot.png"}),))
ROLES = ("coder: small seed=7", "planner: big temperature=0.1")


async def test_sessions_begin_with_the_coders_model_and_plan_with_the_planners(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, DONE, models=("main", "small", "big"), window_tokens=16_000)
    await run(await open_one(server.url, model="main", roles=ROLES, temperature=0.5).new_session())
    await run(await open_one(server.url, model="main", roles=ROLES, temperature=0.5, mode="plan").new_session())
    asked = [(request.body["model"], request.body["temperature"], request.body.get("seed")) for request in server.requests]
    assert asked == [("small", 0.5, 7), ("big", 0.1, None)]


async def test_a_window_that_the_server_does_not_tell_is_the_roles(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, DONE, models=("small", "big"), window_tokens=0)
    roles = ("coder: small context_length=7000", "planner: big context_length=9000")
    for mode, expected in (("plan", 9_000), ("auto", 7_000)):
        session = await open_one(server.url, roles=roles, context_tokens=5_000, mode=mode).new_session()
        await run(session)
        changes = [each.event for each in session.history() if isinstance(each.event, ModelChanged)]
        assert changes[-1].window_tokens == expected


async def test_what_nothing_asks_yet_is_said_once(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, DONE, window_tokens=16_000)
    runtime = open_one(server.url, roles=("pilot: e",))
    told = []
    for _ in range(2):
        session = await runtime.new_session()
        await run(session)
        told += [each.event.text for each in session.history() if isinstance(each.event, Notice)]
    assert [text for text in told if text.startswith("roles: nothing uses pilot yet")] == told[:1]


async def test_a_model_that_is_chosen_comes_before_the_coders(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, models=("small", "big"), window_tokens=16_000)
    runtime = open_one(server.url, roles=("coder: small",))
    await runtime.servers.use(server.url, "big")
    await run(await runtime.new_session())
    assert server.requests[0].body["model"] == "big"


def test_one_large_model_at_a_time_unless_roles_want_several() -> None:
    one = (Config(), Config(roles=("planner: temperature=0.1",)), Config(roles=ROLES, one_model="on"))
    several = (Config(roles=ROLES), Config(one_model="off"))
    assert [is_one_model(config) for config in (*one, *several)] == [True] * 3 + [False] * 2


def test_the_slots_of_the_settings_are_those_of_the_server() -> None:
    for slots, expected in ((3, 3), (0, 1)):
        assert ModelConnection(Config(url="http://127.0.0.1:9", slots=slots)).provider().slot_count == expected


async def test_a_picture_of_the_workspace_reaches_the_server_and_a_fork_has_it_too(
    open_one: Open, serve: Serve, workspace: Path
) -> None:
    (workspace / "shot.png").write_bytes(b"\x89PNG\r\n\x1a\n and more")
    server = await serve(LOOK, DONE, DONE, window_tokens=16_000)
    runtime = open_one(server.url, vision="true")
    session = await runtime.new_session()
    events = await run(session)
    assert [len(event.images) for event in events if isinstance(event, ToolCallFinished)] == [1]
    sent = server.requests[1].body["messages"][-1]
    assert sent["role"] == "user"
    assert sent["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    fork = await runtime.open_session(await runtime.archive.fork(session.id))
    await session.close()
    await run(fork, "go on")
    assert sent in server.requests[2].body["messages"]


async def test_the_picture_tool_is_not_told_of_where_vision_is_off(open_one: Open, serve: Serve) -> None:
    for vision, is_told in (("false", False), ("auto", False), ("true", True)):
        server = await serve(DONE, window_tokens=16_000)
        await run(await open_one(server.url, vision=vision).new_session())
        names = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
        assert ("look" in names) is is_told


async def test_a_model_that_the_server_does_not_list_is_told(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, window_tokens=16_000)
    session = await open_one(server.url, model="nosuch").new_session()
    session.submit("hello")
    await session.wait_idle()
    told = [envelope.event.text for envelope in session.history() if isinstance(envelope.event, Notice)]
    assert any("lists no model called 'nosuch'" in text for text in told)


def test_a_title_is_asked_for_where_the_prompt_cache_stays() -> None:
    yes = (("auto", False, 4), ("auto", True, 1), ("on", False, 1))
    no = (("auto", False, 1), ("off", True, 4))
    asks = [asks_for_title(setting, has_role=has_role, slots=slots) for setting, has_role, slots in (*yes, *no)]
    assert asks == [True] * 3 + [False] * 2
