"""Each agent at work is a Textual worker of the full-screen app; the engine knows nothing of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.worker import Worker

from lmtui.core.agent_events import AgentFinished
from lmtui.core.events import TurnEnded, TurnReason
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions
from tests.app.conftest import DONE, Open, Serve
from tests.waiting import until

SEND = ScriptedTurn(calls=(ScriptedCall("delegate", {"objective": "look"}),))
SLEEP = ScriptedTurn(calls=(ScriptedCall("shell", {"command": "sleep 60"}),))


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A model that sends an agent, which sleeps."""
    async with ScriptedServer(Scenario((SLEEP,), match="Your task: look"), Scenario((SEND,))) as server:
        yield server.url


def agents(app: LmtuiApp) -> dict[str, Worker[object]]:
    return {worker.name.rpartition("/")[2]: worker for worker in app.workers if worker.group.startswith("agent:")}


def ends(app: LmtuiApp) -> list[TurnReason]:
    assert app.workbench.active is not None
    return [each.event.reason for each in app.workbench.active.session.history() if isinstance(each.event, TurnEnded)]


def app_with(workspace: Path, open_one: Open, url: str) -> LmtuiApp:
    options = StartOptions(workspace=str(workspace), task="look at it", mode="auto")
    return LmtuiApp(lambda: open_one(url, mode="auto"), options)


async def test_each_agent_at_work_is_a_worker_named_after_it(workspace: Path, url: str, open_one: Open) -> None:
    app = app_with(workspace, open_one, url)
    async with app.run_test(size=(120, 40)):
        await until(lambda: set(agents(app)) == {"root", "agent_1"})
        assert app.workbench.active is not None
        session = app.workbench.active.session
        root = agents(app)["root"]
        assert (root.name, root.group) == (f"{session.id}/root", f"agent:{session.id}/root")
        assert all(worker.is_running for worker in agents(app).values())
        session.interrupt()
        await until(lambda: not agents(app))
        assert ends(app) == [TurnReason.INTERRUPTED]


async def test_cancelling_the_worker_of_an_agent_stops_it_and_those_that_it_sent(
    workspace: Path, url: str, open_one: Open
) -> None:
    app = app_with(workspace, open_one, url)
    async with app.run_test(size=(120, 40)):
        await until(lambda: "agent_1" in agents(app))
        root, child = agents(app)["root"], agents(app)["agent_1"]
        app.workers.cancel_group(app, root.group)
        await until(lambda: not agents(app))
        assert root.is_cancelled
        assert child.is_finished
        assert ends(app) == [TurnReason.INTERRUPTED]
        assert app.workbench.active is not None
        finished = [each.event for each in app.workbench.active.session.history() if isinstance(each.event, AgentFinished)]
        assert [event.outcome for event in finished] == ["interrupted"]


async def test_a_turn_that_is_stopped_as_it_begins_ends_in_the_log(workspace: Path, serve: Serve, open_one: Open) -> None:
    server = await serve(DONE, DONE)
    app = app_with(workspace, open_one, server.url)
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.workbench.active is not None and ends(app) == [TurnReason.DONE])
        assert app.workbench.active is not None
        session = app.workbench.active.session
        await until(lambda: not session.is_running)  # else the text waits, and a stop holds back what waits
        session.submit("again")
        session.interrupt()
        await until(lambda: len(ends(app)) == 2)
        assert ends(app)[1] is TurnReason.INTERRUPTED
