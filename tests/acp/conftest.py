"""The agent in a workspace of its own, and one that the tests of a module share where each needs no fresh process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.acp.agent_process import Agent, ModelServer

WRITE = ScriptedCall("write", {"path": "greeting.txt", "content": "hello from the model\n"})
EDIT = ScriptedCall("edit", {"path": "list.txt", "search": "x", "replace": "y", "all": True})
SCENARIOS = (
    Scenario((ScriptedTurn("I will write it.", calls=(WRITE,)), ScriptedTurn("It is written.")), match="greeting"),
    Scenario((ScriptedTurn(calls=(EDIT,)), ScriptedTurn("Replaced.")), match="replace", name="edit"),
    Scenario((ScriptedTurn(" ".join(f"word{n}" for n in range(600)), rate=20.0),), name="slow", match="talk"),
    Scenario((ScriptedTurn("Hello to you."), ScriptedTurn("Hello again.")), name="hello", match="hello"),
)


@pytest.fixture(scope="module")
def model_server() -> Iterator[ScriptedServer]:
    with ModelServer(*SCENARIOS) as server:
        yield server


Start = Callable[..., Agent]


@pytest.fixture
def start(tmp_path: Path, model_server: ScriptedServer) -> Iterator[Start]:
    """Start agents in one workspace with one home; each is ended with the test."""
    (tmp_path / "work").mkdir()
    agents: list[Agent] = []

    def begin(*arguments: str, server: ScriptedServer | None = model_server, **environ: str) -> Agent:
        url = ("--url", server.url) if server is not None else ()
        place = (tmp_path / "work", tmp_path / "home")
        agent = Agent(*place, *url, "--sandbox", "process", *arguments, environ=environ)
        agents.append(agent)
        return agent

    yield begin
    for agent in agents:
        agent.close()


@pytest.fixture
def agent(start: Start) -> Agent:
    """Return an agent that is initialized."""
    agent = start()
    agent.initialize()
    return agent
