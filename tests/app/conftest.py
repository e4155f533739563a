"""Runtimes on a folder and a home of their own, against scripted servers, without isolation."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.events import Event, ModelChanged, ToolCallFinished
from lmtui.core.sessions import Session
from lmtui.features.jobs.service import WorkspaceJobs
from lmtui.features.jobs.values import Jobs
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.waiting import PATIENCE_S

WRITE = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DONE = ScriptedTurn("All is done.")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def jobs_of(runtime: Runtime) -> WorkspaceJobs:
    jobs = runtime.extensions[Jobs]
    assert isinstance(jobs, WorkspaceJobs)
    return jobs


async def one_pass(runtime: Runtime) -> None:
    """Run the jobs that are due."""
    async with asyncio.timeout(PATIENCE_S):
        await jobs_of(runtime).serve(until_empty=True)


Serve = Callable[..., Awaitable[ScriptedServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[ScriptedServer] = []

    async def start(*turns: ScriptedTurn, **options: Any) -> ScriptedServer:
        server = await ScriptedServer(Scenario(turns, **options)).__aenter__()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.__aexit__(None, None, None)


Open = Callable[..., Runtime]


@pytest.fixture
async def open_any(workspace: Path) -> AsyncIterator[Open]:
    runtimes: list[Runtime] = []

    def start(
        url: str = "", *, at: Path = workspace, is_attended: bool = False, is_mode_forced: bool = False, **settings: Any
    ) -> Runtime:
        config = dataclasses.replace(Config(sandbox="process", max_retries=0), url=url, **settings)
        runtimes.append(Runtime(at, config, is_attended=is_attended, is_mode_forced=is_mode_forced))
        return runtimes[-1]

    yield start
    for runtime in runtimes:
        await runtime.close()


@pytest.fixture
def open_one(open_any: Open) -> Open:
    """Open runtimes where nobody is there."""
    return open_any


@pytest.fixture
def open_attended(open_any: Open) -> Open:
    """Open runtimes for a user who is there."""
    return functools.partial(open_any, is_attended=True)


def results(events: Sequence[Event]) -> list[str]:
    """Return what the model was told of its calls."""
    return [each.result for each in events if isinstance(each, ToolCallFinished)]


def told(server: ScriptedServer, request: int = -1) -> list[str]:
    """Return the tools that a request names."""
    return [tool["function"]["name"] for tool in server.requests[request].body["tools"]]


async def run(session: Session, text: str = "do it") -> list[Event]:
    """Run one task and return what was published meanwhile."""
    events: list[Event] = []
    unsubscribe = session.subscribe(lambda envelope: events.append(envelope.event))
    session.submit(text)
    await session.wait_idle()
    unsubscribe()
    await window_known(session)
    return events


async def window_known(session: Session) -> None:
    """Wait until the look at the server is over: a look that is cancelled may leave its socket to the garbage collector."""
    async with asyncio.timeout(PATIENCE_S):
        while not [each.event for each in session.history() if isinstance(each.event, ModelChanged)][-1].window_tokens:
            await asyncio.sleep(0.01)
