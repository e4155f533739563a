from __future__ import annotations

import json
from datetime import UTC, datetime

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

FILES_ONLY = ("--sandbox", "process", "--mode", "auto")
SEND = ScriptedTurn(
    "I send one.",
    calls=(ScriptedCall("delegate", {"objective": "Write a.txt", "deliverable_type": "file", "deliverable_path": "a.txt"}),),
)
WRITE = ScriptedTurn("", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
REPORT = ScriptedTurn("", calls=(ScriptedCall("report_result", {"status": "ok", "summary": "it is there"}),))


def pair() -> tuple[Scenario, ...]:
    child = Scenario((WRITE, REPORT), "child", "Your task:")
    return (child, Scenario((SEND, ScriptedTurn("a.txt is there.")), "parent"))


async def test_the_demo_has_sub_agents_do_it(program: Program) -> None:
    done = await program.run("demo", "--headless", "--agents", "--keep", "made", "--sandbox", "bubblewrap")
    assert done.code == 0, done.err
    assert done.out.startswith("Done by **three sub-agents**")
    assert (program.workspace / "made/degrees.py").exists()
    assert "sub-agent agent_2 ends: done, One test, it passes." in done.err
    assert "agent_3 begins, only reading" in done.err
    assert not (program.workspace / "made/.lmagent/agents").exists()


async def test_what_a_sub_agent_does_is_in_the_stream_and_its_papers_are_kept(program: Program, serve: Serve) -> None:
    server = await serve(*pair())
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


FIELDS = ("requests", "prompt_tokens", "completion_tokens", "cached_tokens")


async def test_the_sums_are_those_that_the_server_told_sub_agents_and_forks_counted_once(
    program: Program, serve: Serve
) -> None:
    server = await serve(*pair())
    for _ in range(2):
        assert (await program.run("run", "--url", server.url, *FILES_ONLY, "have it written")).code == 0
        (program.workspace / "a.txt").unlink()
    served = {
        "requests": len(server.usage),
        "prompt_tokens": sum(each["prompt_tokens"] for each in server.usage),
        "completion_tokens": sum(each["completion_tokens"] for each in server.usage),
        "cached_tokens": 0,
    }
    assert served["requests"] == len(server.requests) >= 8
    report = (await program.run("usage", "--json")).json
    assert {name: report["total"][name] for name in FIELDS} == served
    for table in ("days", "models", "folders", "sessions"):
        assert {name: sum(each[name] for each in report[table]) for name in FIELDS} == served
    assert (report["range"], report["total"]["turns"], len(report["sessions"])) == ("7d", 2, 2)
    assert report["total"]["turn_s"] > report["total"]["model_s"] > 0
    assert [each["folder"] for each in report["folders"]] == [str(program.workspace)]
    assert [each["day"] for each in report["days"]] == [datetime.now(UTC).date().isoformat()]
    (program.workspace / "empty").mkdir()
    assert (await program.run("usage", "--workspace", ".", "--json")).json == report
    assert (await program.run("usage", "--workspace", "empty", "--json")).json["total"]["requests"] == 0
    text = (await program.run("usage", "--range", "today", "--by", "model")).out
    assert text.startswith("Today: ")
    assert report["models"][0]["model"] in text
