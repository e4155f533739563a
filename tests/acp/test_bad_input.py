"""What an editor may send by mistake: every request is answered once, and the agent stays."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.acp.agent_process import Agent
from tests.sets import depth

METHODS = (
    "initialize", "session/new", "session/load", "session/resume", "session/fork", "session/list", "session/delete",
    "session/close", "session/set_mode", "session/set_config_option", "session/prompt", "session/unknown", "_x", "",
)  # fmt: skip
NAMES = (
    "protocolVersion", "clientCapabilities", "cwd", "mcpServers", "sessionId", "modeId", "configId", "value", "prompt",
    "cursor", "additionalDirectories", "type", "_meta",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1e308, "", "x", "/no/such/folder", "../..", "\x00", "\ud800", "mode", [], [None], [{"type": "text"}], {},
    {"type": "boolean"}, [{"type": "text", "text": "\x1b[2J"}], [{"name": "a", "command": 5}], {"fs": "yes"}, "a" * 100_000,
)  # fmt: skip


@pytest.mark.full
def test_whatever_it_sends_each_request_is_answered_once(agent: Agent) -> None:
    choice = random.Random(20261126)
    session_id = agent.new_session()
    sent = []
    for number in range(depth(100, 400)):
        params: Any = {name: choice.choice(VALUES) for name in choice.sample(NAMES, choice.randint(0, 6))}
        if choice.random() < 0.3:
            params["sessionId"] = session_id
        if choice.random() < 0.1:
            params = choice.choice(VALUES)
        agent.send({"id": f"r{number}", "method": choice.choice(METHODS), "params": params})
        sent.append(f"r{number}")
        if choice.random() < 0.2:
            agent.send({"method": choice.choice(("session/cancel", "$/cancel_request", "x")), "params": params})
        if choice.random() < 0.1:
            agent.send({"id": choice.choice((0, "x", None, 10**30)), choice.choice(("result", "error")): choice.choice(VALUES)})
    answered: list[str] = []
    while len(answered) < len(sent):
        message = agent.next()
        assert message is not None, agent.stderr()
        if "method" not in message:
            answered.append(message["id"])
    assert sorted(answered) == sorted(sent)
    assert [each for each in agent.quiet() if "method" not in each] == []
    assert agent.prompt(agent.new_session(), "hello") == "end_turn"
