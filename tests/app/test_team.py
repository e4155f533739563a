from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.app.conftest import DONE, Open, Serve, run
from tests.trusting import say

AGENT = "---\nname: heron\ndescription: Looks for frogs.\ntools: Read\n---\nStand still.\n"
SEND = ScriptedTurn(calls=(ScriptedCall("delegate", {"objective": "look", "agent": "heron"}),))
REPORT = ScriptedTurn(calls=(ScriptedCall("report_result", {"status": "ok", "summary": "seen"}),))


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))


async def test_a_yes_in_an_open_session_holds_from_the_next_turn_on(workspace: Path, serve: Serve, open_one: Open) -> None:
    (workspace / ".claude/agents").mkdir(parents=True)
    (workspace / ".claude/agents/heron.md").write_text(AGENT)
    server = await serve(DONE, SEND, REPORT, DONE)
    runtime = open_one(server.url, mode="auto")
    session = await runtime.new_session()
    _ = await run(session)
    assert [item.kind for item in runtime.trust.waiting()] == ["sub-agent"]
    say(runtime.trust, is_trusted=True)
    _ = await run(session)
    first, second, child = [request.body for request in server.requests][:3]
    assert "heron" not in str(first)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert "- heron: Looks for frogs." in str(second["messages"][len(first["messages"]) :])
    assert "Stand still." in child["messages"][0]["content"]
    assert [tool["function"]["name"] for tool in child["tools"]] == ["read", "report_result"]
