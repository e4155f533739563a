"""What an editor sees of sessions: questions, cancelling, several at once, history, commands, servers, plans."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedCall, ScriptedFault, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.acp.agent_process import Agent, Message, ModelServer, Refused, choose
from tests.acp.test_conformance import PIXEL

PAPER = Path(__file__).parents[1] / "features" / "paper_server.py"
LINES = "".join(f"line {number}\n" for number in range(40))
CHANGED = LINES.replace("line 2\n", "LINE 2\n").replace("line 30\n", "LINE 30\n")
PLAN = {"title": "Write it", "steps": [{"id": 1, "description": "Write the file", "files": ["planned.txt"]}]}

SMALLER = {"title": "Write less", "steps": [{"id": 1, "description": "Write one line", "files": ["smaller.txt"]}]}


def write(name: str, content: str = "written\n") -> ScriptedCall:
    return ScriptedCall("write", {"path": name, "content": content})


EFFECT = "echo a > a.txt; echo b > b.txt; rm list.txt"
SLOW = ScriptedTurn(" ".join(f"word{n}" for n in range(600)), rate=20.0)
SCENARIOS = (
    Scenario((ScriptedTurn(calls=(write("one.txt"),)), ScriptedTurn(calls=(write("two.txt"),)), ScriptedTurn("Both."), SLOW),
             match="two files", name="two"),
    Scenario((ScriptedTurn(calls=(write("list.txt", CHANGED),)), ScriptedTurn("Changed.")), match="two hunks", name="hunks"),
    Scenario((ScriptedTurn(calls=(ScriptedCall("shell", {"command": "echo out; echo done > made.txt"}),)), ScriptedTurn("!")),
             match="run it", name="run"),
    Scenario((ScriptedTurn(calls=(ScriptedCall("shell", {"command": EFFECT}),)), ScriptedTurn("Ran.")),
             match="overlay", name="overlay"),
    Scenario((SLOW, ScriptedTurn("And on.")),
             match="talk", name="slow"),
    Scenario((ScriptedTurn(calls=(ScriptedCall("mcp__paper__ask", {}),)), ScriptedTurn("Asked.")), match="ask me", name="ask"),
    Scenario((ScriptedTurn("So.", calls=(ScriptedCall("propose_plan", {"plan": PLAN}),)),
              ScriptedTurn("Or so.", calls=(ScriptedCall("propose_plan", {"plan": SMALLER}),)),
              ScriptedTurn(calls=(write("smaller.txt"),)), ScriptedTurn("Done.")), match="plan and revise", name="revise"),
    Scenario((ScriptedTurn(fault=ScriptedFault(FaultKind.STATUS, status=400, body='{"error": {"message": "out of order"}}')),),
             match="fail", name="fail"),
    Scenario((ScriptedTurn("Hello to you."), ScriptedTurn("Hello again."), ScriptedTurn("And again.")), name="hello"),
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ModelServer(*SCENARIOS) as server:
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("acp") / "home"


@pytest.fixture(scope="module")
def shared(home: Path, server: ScriptedServer) -> Iterator[Agent]:
    agent = Agent(home.parent, home, "--url", server.url, "--sandbox", "process")
    agent.initialize(elicitation={"form": {}, "url": {}})
    yield agent
    agent.close()


@pytest.fixture
def agent(shared: Agent, tmp_path: Path) -> Agent:
    """Return the agent of the module, with a folder and a record of this test's own."""
    shared.workspace = tmp_path / "work"
    shared.workspace.mkdir()
    (shared.workspace / "list.txt").write_text(LINES)
    shared.quiet(0.05)
    shared.received.clear()
    shared.asked.clear()
    shared.answers = {"session/request_permission": choose("once")}
    return shared


def states(agent: Agent) -> list[str]:
    """Return what happened to tool calls, in order, the questions about them too."""
    found = []
    for each in agent.received:
        if each.get("method") == "session/request_permission":
            assert each["params"]["toolCall"]["status"] == "pending"
            found.append("asked")
        elif (update := each.get("params", {}).get("update", {})) and update["sessionUpdate"].startswith("tool_call"):
            found += [update["status"]] if "status" in update else []
    return found


def choose_each(*option_ids: str) -> Any:
    """Return what answers one permission request after another."""
    left = list(option_ids)
    return lambda _: {"outcome": {"outcome": "selected", "optionId": left.pop(0)}}


def test_a_call_is_pending_until_it_was_allowed(agent: Agent) -> None:
    agent.prompt(agent.new_session(), "two files, please")
    assert states(agent) == ["pending", "asked", "in_progress", "completed"] * 2
    asked = agent.asked[0]["params"]
    assert [each["kind"] for each in asked["options"]] == ["allow_once", "allow_always", "allow_always", "reject_once"]
    assert [each["optionId"] for each in asked["options"]] == ["once", "session", "always", "no"]
    path = str(agent.workspace / "one.txt")
    diff = {"type": "diff", "path": path, "newText": "written\n"}
    assert diff in asked["toolCall"]["content"]
    assert asked["toolCall"]["locations"] == [{"path": path, "line": 1}]
    assert agent.updates("tool_call")[0]["kind"] == "edit"
    last = agent.updates("tool_call_update")[-1]
    assert last["content"] == [diff | {"path": str(agent.workspace / "two.txt")}]
    assert (asked["toolCall"]["title"], last["title"]) == ("write: one.txt", "write two.txt")


def answered(answer: Message, _: Message) -> Message:
    return answer


REJECTED: tuple[tuple[Message | None, tuple[str, ...]], ...] = (
    ({"outcome": {"outcome": "selected", "optionId": "no"}}, ("end_turn",)),
    ({"outcome": {"outcome": "cancelled"}}, ("cancelled",)),
    ({"outcome": {"outcome": "selected", "optionId": "try"}}, ("cancelled",)),  # which was not offered
    (None, ("end_turn", "cancelled")), ({"outcome": 5}, ("end_turn", "cancelled")), ({}, ("end_turn", "cancelled")),
)  # fmt: skip


def test_what_is_rejected_dismissed_or_not_answered_as_it_was_offered_changes_nothing(agent: Agent) -> None:
    for answer, ends in REJECTED:
        if answer is None:  # an editor that cannot ask
            del agent.answers["session/request_permission"]
        else:
            agent.answers["session/request_permission"] = partial(answered, answer)
        agent.received.clear()
        assert agent.prompt(agent.new_session(), "two files, please") in ends
        assert ends != ("end_turn",) or states(agent) == ["pending", "asked", "failed"] * 2
        assert not (agent.workspace / "one.txt").exists(), answer


def test_hunks_are_asked_about_one_by_one(agent: Agent) -> None:
    agent.answers["session/request_permission"] = choose_each("parts", "no", "yes")
    agent.prompt(agent.new_session(), "two hunks")
    first, *each = [found["params"]["toolCall"] for found in agent.asked]
    assert len([found for found in first["content"] if found["type"] == "diff"]) == 2
    assert [found["title"] for found in each] == ["list.txt: change 1 of 2", "list.txt: change 2 of 2"]
    contents = [content for found in each for content in found["content"]]
    assert [(content["type"], "LINE" in content["newText"], "LINE" in content["oldText"]) for content in contents] == [
        ("diff", True, False)
    ] * 2
    assert each[1]["locations"][0]["line"] > 20
    assert (agent.workspace / "list.txt").read_text() == LINES.replace("line 30\n", "LINE 30\n")


@pytest.mark.full
@pytest.mark.bubblewrap
def test_what_a_command_did_in_an_overlay_is_kept_file_by_file(tmp_path: Path, server: ScriptedServer) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "list.txt").write_text("x\n")
    agent = Agent(work, tmp_path / "home", "--url", server.url, "--sandbox", "bubblewrap")
    agent.initialize()
    agent.answers["session/request_permission"] = choose_each("parts", "no", "yes", "no")
    agent.prompt(agent.new_session(), "an overlay")
    first, *each = [found["params"] for found in agent.asked]
    assert [option["name"] for option in first["options"]][:2] == ["Keep all, deletions too", "Choose change by change"]
    assert [found["toolCall"]["title"] for found in each] == [
        "list.txt: change 1 of 3", "a.txt: change 2 of 3", "b.txt: change 3 of 3",
    ]  # fmt: skip
    assert each[0]["toolCall"]["content"][0] == {
        "type": "diff", "path": str(work / "list.txt"), "oldText": "x\n", "newText": "",
    }  # fmt: skip
    assert sorted(path.name for path in work.iterdir() if path.is_file()) == ["a.txt", "list.txt"]
    agent.close()


def test_cancelling_takes_the_open_question_back(agent: Agent) -> None:
    agent.answers["session/request_permission"] = lambda _: None
    session_id = agent.new_session()
    request = agent.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "two files"}])
    asked = agent.until(lambda each: each.get("method") == "session/request_permission")
    agent.notify("session/cancel", sessionId=session_id)
    taken_back = agent.until(lambda each: each.get("method") == "$/cancel_request")
    assert taken_back["params"] == {"requestId": asked["id"]}
    assert agent.answer_to(request)["result"] == {"stopReason": "cancelled"}
    agent.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "once"}}})
    agent.quiet(0.3)
    assert not (agent.workspace / "one.txt").exists()


def test_a_cancel_right_behind_its_prompt_is_heard(agent: Agent) -> None:
    session_id = agent.new_session()
    prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "please talk"}]}
    messages: list[Message] = [
        {"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt},
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}},
    ]
    agent.write("".join(json.dumps(each) + "\n" for each in messages).encode())
    assert agent.answer_to("p", 5)["result"] == {"stopReason": "cancelled"}


def test_a_cancelled_request_ends_with_its_error(agent: Agent) -> None:
    session_id = agent.new_session()
    request = agent.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "please talk"}])
    agent.until(lambda each: "word3" in str(each))
    agent.notify("$/cancel_request", requestId=request)
    assert agent.answer_to(request, 5)["error"]["code"] == -32800
    agent.notify("$/cancel_request", requestId="unknown")
    assert agent.prompt(session_id, "go on") == "end_turn"


def test_two_sessions_keep_out_of_each_other_s_way(agent: Agent) -> None:
    talking, quick = agent.new_session(), agent.new_session()
    first = agent.request("session/prompt", sessionId=talking, prompt=[{"type": "text", "text": "please talk"}])
    agent.until(lambda each: "word3" in str(each))
    second = agent.request("session/prompt", sessionId=quick, prompt=[{"type": "text", "text": "hello"}])
    waiting = agent.until(lambda each: "busy with another request" in str(each))
    assert waiting["params"]["sessionId"] == quick
    agent.notify("session/cancel", sessionId=talking)
    assert agent.answer_to(first)["result"] == {"stopReason": "cancelled"}
    assert agent.answer_to(second)["result"] == {"stopReason": "end_turn"}  # the server answers one request at a time
    said = {
        session_id: "".join(
            each["params"]["update"]["content"]["text"]
            for each in agent.received
            if each.get("params", {}).get("sessionId") == session_id
            and each["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        )
        for session_id in (talking, quick)
    }
    assert said[quick] == "Hello to you."
    assert said[talking].startswith("word0 word1 word2")


def test_a_turn_that_fails_is_an_error_that_says_why(agent: Agent) -> None:
    with pytest.raises(Refused, match="out of order"):
        agent.prompt(agent.new_session(), "fail")


@pytest.mark.full
def test_the_whole_history_is_there_after_a_kill_in_the_middle(tmp_path: Path, server: ScriptedServer) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    first = Agent(work, home, "--url", server.url, "--sandbox", "process")
    first.initialize()
    session_id = first.new_session()
    first.prompt(session_id, "two files")
    live = {each["messageId"] for each in first.updates("agent_message_chunk")}
    first.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "go on"}])
    first.until(lambda each: "word3" in str(each))
    first.process.send_signal(signal.SIGKILL)
    first.close()
    second = Agent(work, home, "--url", server.url, "--sandbox", "process")
    second.initialize()
    listed = second.call("session/list", cwd=str(work))["sessions"]
    assert [(each["sessionId"], each["title"], each["cwd"]) for each in listed] == [(session_id, "two files", str(work))]
    second.call("session/load", sessionId=session_id, cwd=str(work), mcpServers=[])
    assert [each["content"]["text"] for each in second.updates("user_message_chunk")] == ["two files", "go on"]
    assert second.said() == "Both."
    assert live == {each["messageId"] for each in second.updates("agent_message_chunk")}
    assert [each["status"] for each in second.updates("tool_call_update") if "status" in each].count("completed") == 2
    second.end()
    second.close()


def test_a_fork_goes_its_own_way(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.prompt(session_id, "hello")
    fork = agent.call("session/fork", sessionId=session_id, cwd=str(agent.workspace), mcpServers=[])["sessionId"]
    assert fork != session_id
    agent.received.clear()
    agent.prompt(fork, "again")
    assert agent.said() == "Hello again."


def test_a_session_of_another_folder_is_not_found_here(agent: Agent, tmp_path: Path) -> None:
    session_id = agent.new_session()
    agent.call("session/close", sessionId=session_id)
    (tmp_path / "other").mkdir()
    with pytest.raises(Refused, match="not found") as refused:
        agent.call("session/load", sessionId=session_id, cwd=str(tmp_path / "other"), mcpServers=[])
    assert refused.value.code == -32002


def test_links_attach_files_and_documents_and_pictures_reach_the_model(agent: Agent, server: ScriptedServer) -> None:
    blocks = [
        {"type": "text", "text": "hello, see"},
        {"type": "resource_link", "uri": f"file://{agent.workspace}/list.txt#L3:4", "name": "list.txt"},
        {
            "type": "resource",
            "resource": {"uri": "file:///elsewhere/note.md", "text": "a note @list.txt", "mimeType": "text/plain"},
        },
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    ]
    agent.call("session/prompt", sessionId=agent.new_session(), prompt=blocks)
    sent = json.dumps(server.requests[-1].body["messages"][-1])
    assert "hello, see @list.txt:3-4" in sent
    assert "line 2" in sent
    assert "line 30" not in sent
    assert "a note @list.txt" in sent
    assert PIXEL[:40] in sent or "picture" in sent


def test_a_prompt_that_cannot_be_is_refused(agent: Agent) -> None:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    session_id = agent.new_session()
    for blocks in (
        [], [{"type": "text", "text": " "}], [picture | {"data": "no base64!"}], [picture | {"data": "aGVsbG8="}],
        [picture] * 9,
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            agent.call("session/prompt", sessionId=session_id, prompt=blocks)
        assert refused.value.code == -32602


def test_commands_are_sent_again_when_a_file_comes_and_run(agent: Agent, server: ScriptedServer) -> None:
    session_id = agent.new_session()
    first = agent.until(lambda each: "available_commands_update" in str(each))["params"]["update"]["availableCommands"]
    names = {each["name"] for each in first}
    assert {"status", "undo", "compact", "find-bug"} <= names
    assert not {"quit", "exit", "new", "sessions"} & names
    folder = agent.workspace / ".lmagent" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("---\ndescription: Greet somebody\nargument-hint: NAME\n---\nSay hello to $1.\n")
    agent.prompt(session_id, "/greet Ada")
    assert {"name": "greet", "description": "Greet somebody", "input": {"hint": "NAME"}} in [
        each
        for message in agent.received
        if "available_commands_update" in str(message)
        for each in message["params"]["update"]["availableCommands"]
    ]
    assert server.requests[-1].body["messages"][-1]["content"].startswith("Say hello to Ada.")
    resource = {"uri": "file:///elsewhere/note.md", "text": "the text of the note"}
    blocks = [{"type": "text", "text": "/greet Ada"}, {"type": "resource", "resource": resource}]
    agent.call("session/prompt", sessionId=session_id, prompt=blocks)
    sent = json.dumps(server.requests[-1].body["messages"][-1])
    assert ("Say hello to Ada" in sent, "the text of the note" in sent) == (True, True)
    agent.prompt(session_id, "/status")
    assert re.search(r"mode +normal", agent.said())
    with pytest.raises(Refused, match=r"no command /gret\. Did you mean /greet"):
        agent.prompt(session_id, "/gret")
    agent.prompt(session_id, "/quit")
    assert "/quit is not available here" in agent.said()


def test_undo_asks_and_puts_back(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.prompt(session_id, "two files")
    agent.answers["session/request_permission"] = choose("yes")
    agent.prompt(session_id, "/undo 2")
    assert not (agent.workspace / "one.txt").exists()
    assert "undo done" in agent.said()


def approve_plan(asked: Message) -> Message:
    return choose("approve" if asked["toolCall"]["kind"] == "switch_mode" else "once")(asked)


def test_a_plan_is_a_question_that_words_revise_and_is_carried_out_once_approved(agent: Agent, server: ScriptedServer) -> None:
    session_id = agent.new_session()
    agent.call("session/set_mode", sessionId=session_id, modeId="plan")
    agent.answers["session/request_permission"] = choose("no")
    agent.prompt(session_id, "plan and revise")
    agent.answers["session/request_permission"] = approve_plan
    assert agent.prompt(session_id, "make it smaller") == "end_turn"
    sent = next(each.body["messages"] for each in server.requests if "make it smaller" in json.dumps(each.body["messages"]))
    plans = [each["params"] for each in agent.asked if each["params"]["toolCall"]["kind"] == "switch_mode"]
    assert ["Write one line" in json.dumps(each["toolCall"]["content"]) for each in plans] == [False, True]
    assert [each["kind"] for each in plans[0]["options"]] == ["allow_once", "allow_always", "reject_once"]
    assert agent.updates("plan")[-1]["entries"][0]["content"] == "Write one line"
    assert "The user wants the plan changed" in json.dumps(sent[-1])
    assert not (agent.workspace / "planned.txt").exists()
    assert (agent.workspace / "smaller.txt").exists()
    modes = [each["currentModeId"] for each in agent.updates("current_mode_update")]
    assert modes == ["plan", "normal"]  # the plan stays open, and its mode with it, until the second answer


def _document(uri: str) -> Message:
    return {"type": "resource", "resource": {"uri": uri, "text": "/mode auto"}}


BESIDE = (
    _document("/mode auto"), _document("file:///mode%20auto"), _document("auto"),
    {"type": "resource_link", "uri": "https://a.example", "name": "/mode auto"},
    {"type": "resource_link", "uri": "file:///mode%20auto", "name": "x"},
)  # fmt: skip


def test_the_name_of_a_document_is_no_command_and_no_argument_of_one(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.answers["session/request_permission"] = choose("none of these")
    for beside in BESIDE:
        for typed in ("/mode", "/mode ", "hello"):
            words = {"type": "text", "text": typed}
            for prompt in ([beside, words], [words, beside]):
                agent.call("session/prompt", sessionId=session_id, prompt=prompt)
        agent.call("session/prompt", sessionId=session_id, prompt=[beside])
    assert not [each for each in agent.updates("current_mode_update") if each["currentModeId"] == "auto"]


def test_a_server_of_the_editor_has_tools_and_asks_in_a_form(agent: Agent) -> None:
    shutil.copy(PAPER, agent.workspace / "paper_server.py")
    env = [{"name": "WORD", "value": "x"}]
    server = {"name": "paper", "command": sys.executable, "args": ["paper_server.py", "offers=1"], "env": env}
    agent.answers["elicitation/create"] = lambda _: {"action": "accept", "content": {"name": "Ada"}}
    without, session_id = agent.new_session(), agent.new_session(mcpServers=[server])
    agent.until(lambda each: "mcp__paper__" in str(each) and "available_commands_update" in str(each), 15)
    assert {each["params"]["sessionId"] for each in agent.received if "mcp__paper__" in str(each)} == {session_id}
    assert agent.prompt(without, "hello") == "end_turn"
    assert agent.prompt(session_id, "ask me") == "end_turn"
    asked = next(each["params"] for each in agent.asked if each["method"] == "elicitation/create")
    assert asked["mode"] == "form"
    assert asked["sessionId"] == session_id
    assert asked["requestedSchema"]["properties"] == {"name": {"type": "string"}}
    assert asked["toolCallId"] == agent.updates("tool_call")[0]["toolCallId"]
    assert "Ada" in json.dumps(agent.updates("tool_call_update")[-1]["content"])


def test_a_server_that_cannot_be_is_refused(agent: Agent) -> None:
    entries: list[Message] = [{"type": "http", "url": "no address", "headers": []}, {"type": "acp", "id": "1", "serverId": "1"}]
    for entry, problem in zip(entries, ("no address", "not supported"), strict=True):
        with pytest.raises(Refused, match=problem):
            agent.new_session(mcpServers=[{"name": "a", **entry}])


def test_what_a_folder_brings_is_said_once_and_not_taken(agent: Agent) -> None:
    (agent.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": {"command": "touch", "args": ["evil.txt"]}}}))
    session_id = agent.new_session()
    agent.prompt(session_id, "hello")
    agent.prompt(agent.new_session(), "hello")
    notes = [each["content"]["text"] for each in agent.updates("agent_thought_chunk")]
    assert len([each for each in notes if "that you have not trusted" in each and "lmtui trust" in each]) == 1
    time.sleep(0.2)
    assert not (agent.workspace / "evil.txt").exists()
