from __future__ import annotations

import json

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

FILES_ONLY = ("--sandbox", "process", "--mode", "auto")
SEND = ScriptedTurn(
    "I send one.",
    calls=(ScriptedCall("delegate", {"objective": "Write a.txt", "deliverable_type": "file", "deliverable_path": "a.txt"}),),
)
WRITE = ScriptedTurn("", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
REPORT = ScriptedTurn("", calls=(ScriptedCall("report_result", {"status": "ok", "summary": "it is there"}),))


async def test_the_demo_has_sub_agents_do_it(program: Program) -> None:
    done = await program.run("demo", "--headless", "--agents", "--keep", "made", "--sandbox", "bubblewrap")
    assert done.code == 0, done.err
    assert done.out.startswith("Done by **three sub-agents**")
    assert (program.workspace / "made/degrees.py").exists()
    assert "sub-agent agent_2 ends: done, One test, it passes." in done.err
    assert "agent_3 begins, only reading" in done.err
    assert not (program.workspace / "made/.lmagent/agents").exists()


async def test_what_a_sub_agent_does_is_in_the_stream_and_its_papers_are_kept(program: Program, serve: Serve) -> None:
    child = Scenario((WRITE, REPORT), "child", "Your task:")
    server = await serve(child, Scenario((SEND, ScriptedTurn("a.txt is there.")), "parent"))
    (program.home / "config").mkdir(parents=True)
    (program.home / "config/config.toml").write_text('keep_agents = "on"\n')
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "--output", "stream-json", "have it written")
    events = [json.loads(line) for line in result.out.splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds[-1] == "turn_ended"
    assert events[-1]["files_changed"] == ["a.txt"]
    begun, ended = kinds.index("agent_started"), kinds.index("agent_finished")
    assert {event["agent"] for event in events[begun + 1 : ended] if event["kind"] == "tool_call_started"} == {"agent_1"}
    assert (program.workspace / "a.txt").read_text() == "one\n"
    papers = next((program.workspace / ".lmagent/agents").glob("*/agent_1"))
    assert json.loads((papers / "brief.json").read_text())["objective"] == "Write a.txt"
    assert json.loads((papers / "result.json").read_text())["artifacts"] == ["a.txt"]


async def test_without_sub_agents_the_model_is_told_of_none_and_of_no_definition(program: Program, serve: Serve) -> None:
    (program.home / "config/agents").mkdir(parents=True)
    (program.home / "config/agents/reviewer.md").write_text("---\nname: reviewer\ndescription: Reviews.\n---\nLook.\n")
    server = await serve(SEND, ScriptedTurn("then not."))
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "--no-sub-agents", "have it reviewed")
    assert (result.code, "no tool 'delegate'" in result.err) == (0, True)
    names = [tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert not {"delegate", "decompose", "explore"} & set(names)
    assert "reviewer" not in server.requests[0].body["messages"][0]["content"]
