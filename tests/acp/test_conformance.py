"""The requirements of the public conformance kit (agentclientprotocol/acp-tck, version 1), as tests of our own.

`REQUIREMENTS` says which test holds which of them: every requirement of the tiers MANDATORY, CAPABILITY and ADVISORY, by the
kit's ids without their "ACP-".  The kit starts a process for each test; these share one, as far as they are not about starting
and ending.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmtui.models.scripted_server import ScriptedServer
from tests.acp.agent_process import Agent, Message, Refused
from tests.acp.conftest import Start

REQUIREMENTS = {
    "initialize_tells_version_capabilities_and_name": "JSONRPC-001 INIT-001 INIT-002 INIT-003 INIT-004",
    "every_line_of_an_exchange_is_one_message_that_fits_the_schema": "TRANSPORT-001 TRANSPORT-002 JSONRPC-002 SCHEMA-001 "
    "PROMPT-001 PROMPT-002 CLIENTCAP-001 CLIENTCAP-002 CLIENTCAP-003 SCHEMA-002",
    "a_notification_gets_no_response": "JSONRPC-003",
    "authenticate_lets_sessions_begin_and_each_has_an_id_of_its_own": "SESSION-001 SESSION-002 AUTH-003 AUTH-005",
    "a_cancelled_prompt_ends_as_cancelled_and_nothing_follows": "CANCEL-001 CANCEL-002",
    "modes_and_options_have_valid_values_and_can_be_set": "CONFIG-003 CONFIG-001 CONFIG-002 MODES-001 MODES-002",
    "a_terminal_method_only_where_the_client_has_terminals_for_it": "AUTH-002 AUTH-001",
    "an_unknown_method_is_answered_with_method_not_found": "EXT-001 AUTH-004 JSONRPC-004",
    "load_replays_all_before_its_answer_and_resume_nothing": "LOAD-001 LOAD-002 LOAD-003 RESUME-001 RESUME-002",
    "list_has_the_session_until_its_delete_and_nothing_for_an_empty_folder": "LIST-001 LIST-002 DELETE-001 DELETE-002",
    "close_of_an_idle_session_and_one_with_a_running_prompt": "CLOSE-001 CLOSE-002",
    "another_folder_is_accepted": "ADDDIRS-001",
    "prompts_with_a_picture_a_document_and_a_link_but_no_audio": "PROMPTCAP-001 PROMPTCAP-002 PROMPTCAP-003 PROMPT-003",
    "the_connection_survives_what_is_wrong": "JSONRPC-005 ERROR-001",
    "meta_is_accepted": "META-001",
    "the_end_of_input_ends_the_process": "SHUTDOWN-001",
}  # fmt: skip
pytestmark = pytest.mark.full  # what an editor does with sessions drives the same program
STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364600000000600023081d02f"
        "0000000049454e44ae426082"
    )
).decode()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, model_server: ScriptedServer) -> Iterator[Agent]:
    """Return the agent that the tests of this module share."""
    folder = tmp_path_factory.mktemp("acp")
    (folder / "work").mkdir()
    (folder / "work" / "list.txt").write_text("x\n")
    agent = Agent(folder / "work", folder / "home", "--url", model_server.url, "--sandbox", "process")
    agent.initialize()
    yield agent
    agent.close()


def test_every_requirement_has_its_test() -> None:
    assert {f"test_{name}" for name in REQUIREMENTS} <= set(vars(sys.modules[__name__]))
    assert len({each for ids in REQUIREMENTS.values() for each in ids.split()}) == 52


def test_initialize_tells_version_capabilities_and_name(agent: Agent) -> None:
    result = agent.initialize()
    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"] == "lmtui"
    assert result["agentInfo"]["version"]
    capabilities = result["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert set(capabilities["sessionCapabilities"]) == {"list", "delete", "additionalDirectories", "fork", "resume", "close"}
    assert capabilities["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}
    for version, request_id in ((65535, 424242), (2, "an-id"), (0, "0")):
        agent.request("initialize", request_id, protocolVersion=version, clientCapabilities={}, info={"name": "editor"})
        answer = agent.answer_to(request_id)
        assert (answer["id"], answer["result"]["protocolVersion"]) == (request_id, 1)


def test_every_line_of_an_exchange_is_one_message_that_fits_the_schema(agent: Agent) -> None:
    session_id = agent.new_session()
    since = len(agent.received)  # each message is checked as it is read: see `Agent.next`
    assert agent.prompt(session_id, "write the greeting") == "end_turn"
    updates = [each for each in agent.received[since:] if each.get("method") == "session/update"]
    assert updates
    assert {each["params"]["sessionId"] for each in updates} == {session_id}
    assert (agent.workspace / "greeting.txt").read_text() == "hello from the model\n"
    assert {each["method"] for each in agent.asked} == {"session/request_permission"}  # nothing that was not offered
    for line in agent.lines:
        message = json.loads(line.decode("utf-8"))
        assert isinstance(message, dict)
        assert line.count(b"\n") == 1


def test_a_notification_gets_no_response(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.quiet()
    agent.notify("session/cancel", sessionId=session_id)
    agent.notify("session/cancel", sessionId="no such session")
    agent.notify("session/cancel")
    agent.notify("_unknown/notification")
    assert [each for each in agent.quiet() if "method" not in each] == []


def test_an_unknown_method_is_answered_with_method_not_found(agent: Agent) -> None:
    for method in ("_kit/does_not_exist", "session/unknown", "providers/list"):
        with pytest.raises(Refused) as refused:
            agent.call(method)
        assert refused.value.code == -32601
    assert agent.initialize()["agentCapabilities"]["auth"] == {}
    with pytest.raises(Refused):
        agent.call("logout")


def test_the_connection_survives_what_is_wrong(agent: Agent) -> None:
    for line in (b"this is not JSON\n", b'{"foo": "bar"}\n', b"[]\n", b"17\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"\n"):
        agent.write(line)
    for params in ({}, {"cwd": 5, "mcpServers": []}, {"cwd": "relative", "mcpServers": []}, {"cwd": "/no/such/folder"}):
        with pytest.raises(Refused) as refused:
            agent.call("session/new", **params)
        assert refused.value.code == -32602
    for method in ("session/prompt", "session/set_mode", "session/close"):
        with pytest.raises(Refused):
            agent.call(method, sessionId="no such session", prompt=[{"type": "text", "text": "hello"}], modeId="auto")
    codes = [each["error"]["code"] for each in agent.received if "error" in each and each["id"] is None]
    assert codes.count(-32700) == 3
    assert codes.count(-32600) == 3
    assert agent.new_session()


def test_a_cancelled_prompt_ends_as_cancelled_and_nothing_follows(agent: Agent) -> None:
    session_id = agent.new_session()
    request = agent.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "please talk"}])
    agent.until(lambda each: _kind(each) == "agent_message_chunk")
    agent.notify("session/cancel", sessionId=session_id)
    assert agent.answer_to(request)["result"] == {"stopReason": "cancelled"}
    assert [each for each in agent.quiet() if each.get("method") == "session/update"] == []


def test_close_of_an_idle_session_and_one_with_a_running_prompt(agent: Agent) -> None:
    session_id = agent.new_session()
    assert agent.call("session/close", sessionId=session_id) == {}
    with pytest.raises(Refused):
        agent.prompt(session_id, "hello")
    session_id = agent.new_session()
    prompts = [
        agent.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": text}])
        for text in ("please talk", "and then?")
    ]
    agent.until(lambda each: _kind(each) == "agent_message_chunk")
    close = agent.request("session/close", sessionId=session_id)
    found: dict[int | str, Message] = {}
    while len(found) < 3:
        message = agent.until(lambda each: each.get("id") in (*prompts, close) and "method" not in each)
        found[message["id"]] = message["result"]
    assert found == {prompt: {"stopReason": "cancelled"} for prompt in prompts} | {close: {}}


def test_load_replays_all_before_its_answer_and_resume_nothing(agent: Agent) -> None:
    session_id = agent.new_session()
    here: Message = {"sessionId": session_id, "cwd": str(agent.workspace)}
    agent.call("session/resume", **here)  # one that was never prompted
    agent.prompt(session_id, "hello")
    agent.quiet()
    since = len(agent.received)
    assert isinstance(agent.call("session/load", **here, mcpServers=[]), dict)
    assert agent.said("user_message_chunk", since) == "hello"
    assert agent.said("agent_message_chunk", since) == "Hello to you."
    assert agent.updates("available_commands_update", since)
    assert [each for each in agent.quiet() if each.get("method") == "session/update"] == []
    with pytest.raises(Refused):
        agent.call("session/load", **here | {"sessionId": "20260101_000000_abcdef"}, mcpServers=[])
    since = len(agent.received)
    agent.call("session/resume", **here)
    agent.quiet()
    assert [each for each in agent.updates(since=since) if each["sessionUpdate"].endswith("_chunk")] == []
    assert agent.prompt(session_id, "and now?") == "end_turn"
    assert agent.said(since=since) == "Hello again."


def test_list_has_the_session_until_its_delete_and_nothing_for_an_empty_folder(agent: Agent, tmp_path: Path) -> None:
    session_id = agent.new_session()

    def listed(**where: Any) -> set[str]:
        return {each["sessionId"] for each in agent.call("session/list", **where)["sessions"]}

    assert session_id in listed() & listed(cwd=str(agent.workspace))
    assert listed(cwd=str(tmp_path)) == set()
    for gone in (session_id, session_id, "never-created", "../../etc/passwd"):
        assert agent.call("session/delete", sessionId=gone) == {}
    assert session_id not in listed()


def test_another_folder_is_accepted(agent: Agent, tmp_path: Path) -> None:
    assert agent.new_session(additionalDirectories=[str(tmp_path)])
    with pytest.raises(Refused):
        agent.new_session(additionalDirectories=["relative"])


def test_modes_and_options_have_valid_values_and_can_be_set(agent: Agent) -> None:
    result = agent.call("session/new", cwd=str(agent.workspace), mcpServers=[])
    session_id, modes = result["sessionId"], result["modes"]
    assert modes["currentModeId"] in {each["id"] for each in modes["availableModes"]}
    since = len(agent.received)
    assert agent.call("session/set_mode", sessionId=session_id, modeId="manual") == {}
    agent.quiet()
    assert [each["currentModeId"] for each in agent.updates("current_mode_update", since)] == ["manual"]
    with pytest.raises(Refused):
        agent.call("session/set_mode", sessionId=session_id, modeId="no such mode")
    options = {each["id"]: each for each in result["configOptions"]}
    assert list(options) == ["mode", "model"]
    for each in options.values():
        assert each["type"] != "boolean"  # without the client's word
        assert each["currentValue"] in {value["value"] for value in each["options"]}
    for option_id, value in (("mode", "auto"), ("model", options["model"]["options"][-1]["value"])):
        answer = agent.call("session/set_config_option", sessionId=session_id, configId=option_id, value=value)
        found = {each["id"]: each["currentValue"] for each in answer["configOptions"]}
        assert set(found) == set(options)
        assert found[option_id] == value
    for option_id, value in (("mode", "no such mode"), ("no such option", "1")):
        with pytest.raises(Refused):
            agent.call("session/set_config_option", sessionId=session_id, configId=option_id, value=value)


def test_prompts_with_a_picture_a_document_and_a_link_but_no_audio(agent: Agent) -> None:
    document = {"uri": "file:///elsewhere/a.txt", "text": "the text", "mimeType": "text/plain"}
    _prompts(agent, {"type": "image", "data": PIXEL, "mimeType": "image/png"})
    _prompts(agent, {"type": "resource", "resource": document})
    _prompts(agent, {"type": "resource_link", "uri": f"file://{agent.workspace}/list.txt", "name": "list.txt"})
    with pytest.raises(Refused):
        _prompts(agent, {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"})


def _prompts(agent: Agent, block: Message) -> None:
    session_id = agent.new_session()
    answer = agent.call("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hello"}, block])
    assert answer["stopReason"] in STOP_REASONS


def test_meta_is_accepted(agent: Agent) -> None:
    session_id = agent.new_session(_meta={"cwd": "/elsewhere"})
    meta = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "session_id": "x"}
    answer = agent.call("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hello"}], _meta=meta)
    assert answer["stopReason"] == "end_turn"


def test_a_terminal_method_only_where_the_client_has_terminals_for_it(agent: Agent) -> None:
    methods = agent.initialize(auth={"terminal": True})["authMethods"]
    assert [(each["id"], each.get("type")) for each in methods] == [("find-model-server", None), ("setup", "terminal")]
    methods = agent.initialize()["authMethods"]
    assert [(each["id"], each.get("type")) for each in methods] == [("find-model-server", None)]
    assert all(each["name"] for each in methods)


def test_authenticate_lets_sessions_begin_and_each_has_an_id_of_its_own(agent: Agent) -> None:
    assert agent.call("authenticate", methodId="find-model-server") == {}
    first, second = agent.new_session(), agent.new_session()
    assert (bool(first), bool(second), first != second) == (True, True, True)
    with pytest.raises(Refused):
        agent.call("authenticate", methodId="no such method")


def test_the_end_of_input_ends_the_process(start: Start) -> None:
    agent = start()
    agent.initialize()
    agent.new_session()
    agent.end()


def _kind(message: Message) -> str:
    return str(message["params"]["update"]["sessionUpdate"]) if message.get("method") == "session/update" else ""
