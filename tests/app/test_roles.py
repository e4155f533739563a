from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.core.events import Notice, ToolCallFinished
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


async def test_what_nothing_asks_yet_is_said_once(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, DONE, window_tokens=16_000)
    runtime = open_one(server.url, roles=("pilot: e",))
    told = []
    for _ in range(2):
        session = await runtime.new_session()
        await run(session)
        told += [each.event.text for each in session.history() if isinstance(each.event, Notice)]
    assert [text for text in told if text.startswith("roles: nothing uses pilot yet")] == told[:1]


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


async def test_a_model_that_the_server_does_not_list_is_told(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, window_tokens=16_000)
    session = await open_one(server.url, model="nosuch").new_session()
    session.submit("hello")
    await session.wait_idle()
    told = [envelope.event.text for envelope in session.history() if isinstance(envelope.event, Notice)]
    assert any("lists no model called 'nosuch'" in text for text in told)
