from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from lmtui.core.events import Level, MessageAdded, ModeChanged, Notice, PlanChanged, ToolCallStarted, TurnEnded
from lmtui.core.messages import Role
from lmtui.core.plan import Plan, PlanStep, Todo
from lmtui.host.websocket import _tasks
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.host.conftest import DONE, TOKEN, WRITE, Host, Start
from tests.sets import depth
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PLAN = ScriptedTurn(
    calls=(
        ScriptedCall(
            "propose_plan",
            {"title": "Do it", "steps": [{"text": "write a file", "files": ["a.txt"], "verification": "look at it"}]},
        ),
    )
)


@asynccontextmanager
async def opened(host: Host, query: str = "", path: str = "/v1/ws", **more: Any) -> AsyncIterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with connect(f"ws://127.0.0.1:{host.port}{path}{query}", additional_headers=headers, **more) as socket:
        yield socket


async def send(socket: ClientConnection, **message: object) -> None:
    await socket.send(json.dumps(message))


async def until(socket: ClientConnection, test: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Return messages to the first for which the test holds."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not found or not test(found[-1]):
            found.append(json.loads(await socket.recv()))
    return found


def of_type(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda message: bool(message["type"] == name)


async def test_a_task_is_given_followed_and_approved_on_one_connection(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    async with opened(host) as socket:
        await send(socket, type="message", content="write a file")
        asked = (await until(socket, of_type("approval_request")))[-1]
        await send(socket, type="approval_response", approval_id=asked["approval_id"], outcome="once", by="tablet")
        rest = await until(socket, of_type("done"))
    kinds = [message["type"] for message in rest]
    resolved = next(message for message in rest if message["type"] == "approval_resolved")
    assert (resolved["decision"], resolved["by"]) == ("allow", "tablet")
    result = next(message for message in rest if message["type"] == "tool_result")
    assert (result["tool"], result["success"], result["tool_call_id"]) == ("write", True, result["tool_call_id"])
    assert kinds.index("tool_result") < kinds.index("done")
    assert "".join(message["text"] for message in rest if message["type"] == "text") == "All is done."
    assert (rest[-1]["text"], rest[-1]["status"], rest[-1]["files_changed"]) == ("All is done.", "done", ["a.txt"])
    assert (host.folder / "a.txt").read_text() == "one\n"


async def test_another_client_sees_the_past_in_either_form(start: Start) -> None:
    host = await start(WRITE, DONE, mode="auto")
    session_id = await host.new_session(message="write a file")
    await host.idle(session_id)
    async with opened(host) as socket:
        await send(socket, type="subscribe", session=session_id, after=0)
        kinds = [message["type"] for message in await until(socket, of_type("done"))]
    assert [each for each in kinds if each in ("tool_call", "tool_result", "done")] == ["tool_call", "tool_result", "done"]
    expected = next(host.folder.rglob(f"{session_id}.jsonl")).read_text().splitlines()
    async with opened(host, "?form=log") as socket:
        await send(socket, type="subscribe", session=session_id, after=0)
        assert json.loads(await socket.recv())["type"] == "subscribed"
        assert [str(await socket.recv()) for _ in expected] == expected


async def test_one_connection_follows_and_answers_all_sessions(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    async with opened(host) as socket:
        await send(socket, type="subscribe")
        _ = await until(socket, of_type("subscribed"))
        ids = [await host.new_session(message="write a file") for _ in range(2)]
        asked: dict[str, str] = {}
        while len(asked) < 2:
            found = (await until(socket, of_type("approval_request")))[-1]
            asked[found["session"]] = found["approval_id"]
        assert sorted(asked) == sorted(ids)
        for session_id, approval_id in asked.items():
            await send(socket, type="approval_response", session=session_id, approval_id=approval_id, outcome="no")
        ended: set[str] = set()
        while len(ended) < 2:
            ended.add((await until(socket, of_type("done")))[-1]["session"])
        await send(socket, type="interrupt")
        assert "no session to act on" in (await until(socket, of_type("error")))[-1]["message"]


async def test_modes_pings_and_new_sessions(start: Start) -> None:
    host = await start(mode="auto")
    async with opened(host) as socket:
        await send(socket, type="ping", id="7")
        assert (await until(socket, of_type("pong")))[-1] == {"type": "pong", "id": "7"}
        await send(socket, type="clear")
        first = (await until(socket, of_type("subscribed")))[-1]["session"]
        await send(socket, type="set_mode", mode="plan")
        assert (await until(socket, of_type("mode_changed")))[-1]["mode"] == "plan"
        await send(socket, type="clear")
        second = (await until(socket, of_type("subscribed")))[-1]["session"]
    assert first != second
    assert (await host.call("GET", f"/v1/sessions/{first}"))["mode"] == "plan"


async def test_a_plan_is_revised_and_approved(start: Start) -> None:
    host = await start(PLAN, PLAN, WRITE, DONE, mode="plan")
    async with opened(host) as socket:
        await send(socket, type="message", content="plan it")
        first = (await until(socket, of_type("plan_ready")))[-1]
        assert first["plan"]["steps"][0]["files"] == ["a.txt"]
        await send(socket, type="revise_plan", feedback="shorter", proposal_id=first["proposal_id"])
        second = (await until(socket, of_type("plan_ready")))[-1]
        await send(socket, type="approve_plan", proposal_id=first["proposal_id"])
        assert "not waiting" in (await until(socket, of_type("error")))[-1]["message"]
        await send(socket, type="approve_plan", proposal_id=second["proposal_id"])
        assert (await until(socket, of_type("mode_changed")))[-1]["mode"] == "normal"


REFUSED = (
    "/mcp yes evil", "/remember --all Always run curl", "/goal touch ran", "/skill evil", "/batch tasks.jsonl",
    "/submit daily 09:00: run it", "/undo", "/model x", "/new", "/no-such-command", "/promote tool.py f", "/deep", "/budget x",
)  # fmt: skip


@pytest.mark.parametrize("steers", depth([True], [False, True]))
async def test_of_slash_commands_only_those_of_a_session_act(start: Start, steers: bool) -> None:
    host = await start(*[DONE] * 3)
    async with opened(host) as socket:
        for typed in (" /mode auto", "!touch ran", "quit"):
            await send(socket, type="message", content=typed, steer=steers)
            await until(socket, of_type("done"))
        for typed in REFUSED:
            await send(socket, type="message", content=typed, steer=steers)
            await send(socket, type="ping")
            assert "refused" in {each.get("kind") for each in await until(socket, of_type("pong"))}, typed
        (session,) = host.hub.sessions
        events = [each.event for each in session.history()]
        said = [each for each in events if isinstance(each, MessageAdded) and each.role is Role.USER]
        assert [each.text.strip() for each in said] == ["/mode auto", "!touch ran", "quit"]
        assert not [each for each in events[events.index(said[0]) :] if isinstance(each, ToolCallStarted | ModeChanged)]
        assert (session.mode, session.goals.listed(), (host.folder / "ran").exists()) == ("normal", (), False)
        await send(socket, type="message", content="/budget 9k tokens", steer=steers)
        assert "9,000 tokens" in (await until(socket, of_type("notice")))[-1]["message"]


async def test_deep_work_and_what_a_turn_says_of_itself(start: Start) -> None:
    host = await start(DONE, mode="auto")
    session_id = await host.new_session()
    async with opened(host, path=f"/ws/{session_id}") as socket, opened(host, path="/ws/activity") as other:
        await send(socket, type="set_mode", mode="deep_work")
        assert "needs a budget" in (await until(socket, of_type("error")))[-1]["message"]
        await send(socket, type="set_mode", mode="deep_work", budget="3h 20k tokens")
        assert (await until(socket, of_type("mode_changed")))[-1]["mode"] == "plan"
        await send(socket, type="message", content="plan it")
        told = await until(socket, of_type("done"))
        thinking = next(each for each in told if each["type"] == "thinking")
        assert (thinking["iteration"], thinking["max_iterations"], thinking["token_budget"]) == (1, 500, 20_000)
        assert (told[-1]["model"], told[-1]["mode"]) == ("scripted", "plan")
        assert (await until(other, of_type("done")))[-1]["session"] == session_id
        await send(socket, type="nonsense")
        assert "send one of ping, interrupt" in (await until(socket, of_type("error")))[-1]["message"]


async def test_todos_and_steps_have_ids_of_their_own() -> None:
    changed = PlanChanged(plan=Plan(todos=(Todo(1, "one"),), steps=(PlanStep(1, "do it"),)))
    assert [each["id"] for each in _tasks(changed)] == ["todo-1", "step-1"]


FRAMES: tuple[str | bytes, ...] = (
    "", "x", "[]", "{}", '{"type": "reboot"}', '{"type": "message"}', '{"type": "message", "content": ""}',
    '{"type": "message", "content": "x", "more": 1}', '{"type": "message", "content": "x", "folder": "/etc"}',
    '{"type": "set_mode", "mode": "auto"}', '{"type": "subscribe", "session": "../../etc/passwd"}',
    '{"type": "subscribe", "session": "20260101_120000_abcdef"}',
    '{"type": "approval_response", "approval_id": "x", "outcome": "once"}', "[" * 5_000, b"\xff\xfe",
    '{"type": "ping", "id": NaN}', '{"type": "message", "content": "\\ud800"}',
)  # fmt: skip


async def test_a_frame_that_cannot_be_is_answered_and_harms_nothing(start: Start) -> None:
    host = await start(mode="auto")
    async with opened(host) as socket:
        for frame in FRAMES:
            await socket.send(frame)
            async with asyncio.timeout(PATIENCE_S):
                told = json.loads(await socket.recv())
            assert (told["type"], bool(told["message"])) == ("error", True), frame
            await send(socket, type="ping")
            _ = await until(socket, of_type("pong"))


@pytest.mark.full
async def test_frames_that_come_again_are_done_once(start: Start) -> None:
    host = await start(WRITE, DONE, DONE, mode="manual")
    session_id = await host.new_session()
    async with opened(host, f"?session={session_id}") as socket:
        for _ in range(3):
            await send(socket, type="message", content="write a file", id="m1")
        asked = (await until(socket, of_type("approval_request")))[-1]
        answer = {"type": "approval_response", "approval_id": asked["approval_id"], "outcome": "once", "id": "a1"}
        for _ in range(3):
            await send(socket, **answer)
        _ = await until(socket, of_type("done"))
    async with opened(host, f"?session={session_id}") as socket:  # the same frames on another connection
        await send(socket, type="message", content="write a file", id="m1")
        assert (await until(socket, of_type("duplicate")))[-1]["id"] == "m1"
        await send(socket, type="approval_response", approval_id=asked["approval_id"], outcome="no")
        assert "has already answered: once" in (await until(socket, of_type("error")))[-1]["message"]
    await host.idle(session_id)
    session = await host.hub.session(session_id)
    assert sum(isinstance(each.event, TurnEnded) for each in session.history()) == 1


async def test_a_socket_without_the_token_or_from_a_page_is_not_opened(start: Start) -> None:
    host = await start()
    page = {"Authorization": f"Bearer {TOKEN}", "Origin": "https://x.example"}
    for headers in ({}, {"Authorization": "Bearer wrong"}, page):
        for query in ("", f"?token={TOKEN}"):
            with pytest.raises(InvalidStatus) as caught:
                async with connect(f"ws://127.0.0.1:{host.port}/v1/ws{query}", additional_headers=headers):
                    pass
            assert caught.value.response.status_code == (403 if headers is page else 401)


async def test_a_client_that_stops_reading_is_closed_and_holds_nobody_up(start: Start) -> None:
    host = await start(mode="auto")
    session_id = await host.new_session()
    (session,) = host.hub.runtimes[0].sessions
    async with opened(host, f"?session={session_id}", max_queue=1, close_timeout=0.1) as socket:
        await asyncio.sleep(0.1)
        socket.transport.pause_reading()
        for _ in range(800):
            session.emit(Notice(level=Level.INFO, text="x" * 20_000))
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            while host.hub.watchers[session_id]:
                await asyncio.sleep(0.05)
    assert (await host.call("GET", f"/v1/sessions/{session_id}"))["last_seq"] > 800


async def test_a_frame_that_is_too_large_closes_the_connection(start: Start) -> None:
    host = await start()
    async with opened(host) as socket:
        with contextlib.suppress(ConnectionClosed):
            await socket.send(json.dumps({"type": "message", "content": "x" * 2_100_000}))
        assert await end_of(socket) == 1009
    assert (await host.client.get("/v1/status")).status_code == 200


async def end_of(socket: ClientConnection) -> int | None:
    """Return the code with which a connection is closed."""
    with contextlib.suppress(ConnectionClosed):
        async with asyncio.timeout(PATIENCE_S):
            async for _ in socket:
                pass
    return socket.close_code
