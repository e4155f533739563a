"""The agent driven by the client side of the SDK, as editors in Python use it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, schema, spawn_agent_process

from lmtui.models.scripted_server import ScriptedServer
from tests.acp.agent_process import ROOT


class Client:
    """Says yes to everything."""

    def __init__(self) -> None:
        self.updates: list[Any] = []

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)


@pytest.mark.full  # the conformance tests check each message with the models of the SDK
async def test_a_client_of_the_sdk_drives_a_session(tmp_path: Path, model_server: ScriptedServer) -> None:
    work, client = tmp_path / "work", Client()
    work.mkdir()
    arguments = ("-m", "lmtui", "acp", "--url", model_server.url, "--sandbox", "process")
    environ = {**os.environ, "LMTUI_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    made: Any = client  # the protocol class of the SDK has methods for what this client does not offer
    async with spawn_agent_process(made, sys.executable, *arguments, env=environ, cwd=work) as (connection, process):
        told = await connection.initialize(PROTOCOL_VERSION, schema.ClientCapabilities())
        assert told.protocol_version == 1
        session = await connection.new_session(cwd=str(work), mcp_servers=[])
        answer = await connection.prompt(session.session_id, [schema.TextContentBlock(type="text", text="the greeting")])
        assert answer.stop_reason == "end_turn"
        assert (work / "greeting.txt").exists()
        kinds = [type(each).__name__ for each in client.updates]
        assert {"AgentMessageChunk", "ToolCallStart", "ToolCallProgress", "UsageUpdate", "AvailableCommandsUpdate"} <= set(
            kinds
        )
        said = "".join(each.content.text for each in client.updates if isinstance(each, schema.AgentMessageChunk))
        assert said == "I will write it.It is written."
    assert process.returncode == 0
