from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.events import ApprovalRequested, Outcome, ToolCallFinished
from lmtui.core.ports import Policy
from lmtui.core.sessions import Answer
from lmtui.providers.scenario import ScriptedCall, ScriptedTurn
from tests.runtime.conftest import DONE, Open, Serve, run

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PAPER = Path(__file__).parents[1] / "extensions" / "paper_server.py"


def configure(workspace: Path, home: Path, **servers: dict[str, Any]) -> None:
    """Name servers at user level; their script lies in the workspace, so that every lane sees it."""
    shutil.copy(PAPER, workspace / "paper_server.py")
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def paper(*options: str, **more: Any) -> dict[str, Any]:
    return {"command": "python3", "args": ["paper_server.py", *options], **more}


def calls(name: str, **arguments: Any) -> ScriptedTurn:
    return ScriptedTurn(calls=(ScriptedCall(name, arguments),))


def finished(events: list[Any]) -> list[ToolCallFinished]:
    return [event for event in events if isinstance(event, ToolCallFinished)]


@pytest.mark.bubblewrap
async def test_a_tool_of_a_server_in_its_lane_is_called_after_a_yes(
    workspace: Path, home: Path, open_one: Open, serve: Serve
) -> None:
    configure(workspace, home, paper=paper())
    server = await serve(calls("mcp__paper__echo", text="hello"), DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", mode="normal")
    session = await runtime.new_session(Policy(is_attended=True))
    asked: list[ApprovalRequested] = []

    def answer(envelope: Any) -> None:
        if isinstance(envelope.event, ApprovalRequested):
            asked.append(envelope.event)
            asyncio.get_running_loop().call_soon(session.answer, envelope.event.approval_id, Answer(Outcome.ONCE))

    _ = session.subscribe(answer)
    events = await run(session)
    assert [each.result for each in finished(events)] == ["hello"]
    assert [each.offered_rules for each in asked] == [("mcp__paper__echo", "mcp__paper__*")]
    assert '"text": "hello"' in asked[0].text
    assert "bubblewrap, no network" in asked[0].limits
    told = {tool["function"]["name"] for tool in server.requests[-1].body["tools"]}
    assert {"mcp__paper__echo", "read"} <= told
