from __future__ import annotations

import json

from lmtui.models.demo_scripts import ScriptedTurn
from lmtui.models.scripted_server import Received
from tests.e2e.conftest import Program, Serve


def system_of(request: Received) -> str:
    first = request.body["messages"][0]
    assert first["role"] == "system"
    return str(first["content"])


async def test_what_a_folder_and_its_user_bring_reaches_the_model_and_is_resumed(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("Done."), ScriptedTurn("Done again."), ScriptedTurn("And again."))
    (program.workspace / "AGENTS.md").write_text("Use tabs.\n")
    (program.workspace / ".lmagent").mkdir(exist_ok=True)
    (program.workspace / ".lmagent" / ".soul.md").write_text("You are brief.\n")
    settings = program.home / "config"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "profile.md").write_text("My name is Ada.\n")
    first = await program.run("run", "--url", server.url, "--sandbox", "process", "--output", "stream-json", "do it")
    assert first.code == 0
    text = system_of(server.requests[0])
    assert [text.index(each) for each in ("You are brief.", "My name is Ada.", "Use tabs.")] == sorted(
        text.index(each) for each in ("You are brief.", "My name is Ada.", "Use tabs.")
    )
    read = next(event for event in map(json.loads, first.out.splitlines()) if event["kind"] == "guidance_read")
    names = [source["name"] for source in read["guidance"]["sources"] if source["kind"] != "skills"]
    assert names == [".lmagent/.soul.md", "~/profile.md", "AGENTS.md"]
    session = next((program.workspace / ".lmagent" / "sessions").glob("*.jsonl")).stem
    (program.workspace / "AGENTS.md").write_text("Use spaces.\n")
    second = await program.run("resume", "--url", server.url, "--sandbox", "process", session, "more")
    assert second.code == 0
    assert system_of(server.requests[1]) == text
    last = server.requests[1].body["messages"][-1]
    assert "has changed" in last["content"]
    assert "Use spaces." in last["content"]
