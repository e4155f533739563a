"""The requirements of the public conformance kit (agentclientprotocol/acp-tck, version 1), as tests of our own.

`CASES` says which test holds which of them: every requirement of the tiers MANDATORY, CAPABILITY and ADVISORY, by the kit's
ids.  The kit starts a process for each test; these share one, as far as they are not about starting and ending.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmtui.models.scripted_server import ScriptedServer
from tests.acp.agent_process import Agent, Message, Refused
from tests.acp.conftest import Start

CASES = {
    # MANDATORY
    "ACP-TRANSPORT-001": "test_every_line_is_one_message_in_utf_8",
    "ACP-TRANSPORT-002": "test_every_line_is_one_message_in_utf_8",
    "ACP-JSONRPC-001": "test_a_response_has_the_id_of_its_request",
    "ACP-JSONRPC-002": "test_every_message_of_an_exchange_fits_the_schema",
    "ACP-JSONRPC-003": "test_a_notification_gets_no_response",
    "ACP-INIT-001": "test_initialize_tells_version_capabilities_and_name",
    "ACP-INIT-002": "test_initialize_tells_version_capabilities_and_name",
    "ACP-INIT-003": "test_a_version_that_is_not_supported_is_answered_with_ours",
    "ACP-SCHEMA-001": "test_every_message_of_an_exchange_fits_the_schema",
    "ACP-SESSION-001": "test_new_sessions_have_ids_of_their_own",
    "ACP-SESSION-002": "test_new_sessions_have_ids_of_their_own",
    "ACP-PROMPT-001": "test_every_message_of_an_exchange_fits_the_schema",
    "ACP-PROMPT-002": "test_every_message_of_an_exchange_fits_the_schema",
    "ACP-CANCEL-001": "test_a_cancelled_prompt_ends_as_cancelled_and_nothing_follows",
    "ACP-CANCEL-002": "test_a_cancelled_prompt_ends_as_cancelled_and_nothing_follows",
    "ACP-CONFIG-003": "test_no_boolean_option_without_the_client_s_word",
    "ACP-AUTH-002": "test_a_terminal_method_only_where_the_client_has_terminals_for_it",
    "ACP-CLIENTCAP-001": "test_nothing_is_asked_that_the_client_did_not_offer",
    "ACP-CLIENTCAP-002": "test_nothing_is_asked_that_the_client_did_not_offer",
    "ACP-CLIENTCAP-003": "test_nothing_is_asked_that_the_client_did_not_offer",
    "ACP-EXT-001": "test_an_unknown_method_is_answered_with_method_not_found",
    # CAPABILITY
    "ACP-LOAD-001": "test_load_replays_all_before_its_answer",
    "ACP-LOAD-002": "test_load_replays_all_before_its_answer",
    "ACP-RESUME-001": "test_resume_replays_nothing",
    "ACP-RESUME-002": "test_resume_replays_nothing",
    "ACP-LIST-001": "test_list_has_the_session_and_nothing_for_an_empty_folder",
    "ACP-LIST-002": "test_list_has_the_session_and_nothing_for_an_empty_folder",
    "ACP-DELETE-001": "test_delete_of_a_session_and_of_none",
    "ACP-CLOSE-001": "test_close_of_an_idle_session",
    "ACP-CLOSE-002": "test_close_cancels_the_running_prompt",
    "ACP-ADDDIRS-001": "test_another_folder_is_accepted",
    "ACP-MODES-001": "test_modes_name_the_current_one_and_can_be_set",
    "ACP-MODES-002": "test_modes_name_the_current_one_and_can_be_set",
    "ACP-CONFIG-001": "test_options_have_valid_values_and_setting_one_returns_all",
    "ACP-CONFIG-002": "test_options_have_valid_values_and_setting_one_returns_all",
    "ACP-PROMPTCAP-001": "test_prompt_with_a_picture",
    "ACP-PROMPTCAP-002": "test_audio_is_neither_offered_nor_taken",
    "ACP-PROMPTCAP-003": "test_prompt_with_an_embedded_document",
    "ACP-AUTH-003": "test_authenticate_lets_sessions_begin",
    "ACP-AUTH-004": "test_logout_is_not_offered",
    # ADVISORY
    "ACP-JSONRPC-004": "test_an_unknown_method_is_answered_with_method_not_found",
    "ACP-JSONRPC-005": "test_the_connection_survives_what_is_wrong",
    "ACP-INIT-004": "test_initialize_tells_version_capabilities_and_name",
    "ACP-PROMPT-003": "test_prompt_with_a_link",
    "ACP-LOAD-003": "test_load_replays_all_before_its_answer",
    "ACP-DELETE-002": "test_delete_of_a_session_and_of_none",
    "ACP-META-001": "test_meta_is_accepted",
    "ACP-ERROR-001": "test_the_connection_survives_what_is_wrong",
    "ACP-SHUTDOWN-001": "test_the_end_of_input_ends_the_process",
    "ACP-SCHEMA-002": "test_every_message_of_an_exchange_fits_the_schema",
    "ACP-AUTH-001": "test_a_terminal_method_only_where_the_client_has_terminals_for_it",
    "ACP-AUTH-005": "test_new_sessions_have_ids_of_their_own",
}
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
    tests = {name for name in vars(sys.modules[__name__]) if name.startswith("test_")}
    assert set(CASES.values()) <= tests
    assert len(CASES) == 52


def test_initialize_tells_version_capabilities_and_name(agent: Agent) -> None:
    result = agent.initialize()
    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"] == "lmtui"
    assert result["agentInfo"]["version"]
    capabilities = result["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert set(capabilities["sessionCapabilities"]) == {"list", "delete", "additionalDirectories", "fork", "resume", "close"}
    assert capabilities["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}


def test_a_version_that_is_not_supported_is_answered_with_ours(agent: Agent) -> None:
    for version in (65535, 2, 0):
        info = {"name": "editor", "version": "0"}
        result = agent.call("initialize", protocolVersion=version, clientCapabilities={}, info=info)
        assert result["protocolVersion"] == 1


def test_a_response_has_the_id_of_its_request(agent: Agent) -> None:
    for request_id in (424242, "an-id", "0"):
        agent.request("initialize", request_id, protocolVersion=1, clientCapabilities={})
        assert agent.answer_to(request_id)["id"] == request_id


def test_new_sessions_have_ids_of_their_own(agent: Agent) -> None:
    first, second = agent.new_session(), agent.new_session()
    assert first
    assert second
    assert first != second


def test_every_message_of_an_exchange_fits_the_schema(agent: Agent) -> None:
    session_id = agent.new_session()
    since = len(agent.received)  # each message is checked as it is read: see `Agent.next`
    assert agent.prompt(session_id, "write the greeting") == "end_turn"
    updates = [each for each in agent.received[since:] if each.get("method") == "session/update"]
    assert updates
    assert {each["params"]["sessionId"] for each in updates} == {session_id}
    assert (agent.workspace / "greeting.txt").read_text() == "hello from the model\n"


def test_every_line_is_one_message_in_utf_8(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.prompt(session_id, "hello")
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
    assert [each for each in agent.quiet(1.0) if each.get("method") == "session/update"] == []


def test_close_of_an_idle_session(agent: Agent) -> None:
    session_id = agent.new_session()
    assert agent.call("session/close", sessionId=session_id) == {}
    with pytest.raises(Refused):
        agent.prompt(session_id, "hello")


def test_close_cancels_the_running_prompt(agent: Agent) -> None:
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


def test_load_replays_all_before_its_answer(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.prompt(session_id, "hello")
    agent.quiet()
    since = len(agent.received)
    result = agent.call("session/load", sessionId=session_id, cwd=str(agent.workspace), mcpServers=[])
    assert isinstance(result, dict)
    assert agent.said("user_message_chunk", since) == "hello"
    assert agent.said("agent_message_chunk", since) == "Hello to you."
    assert agent.updates("available_commands_update", since)
    assert [each for each in agent.quiet(1.5) if each.get("method") == "session/update"] == []
    with pytest.raises(Refused):
        agent.call("session/load", sessionId="20260101_000000_abcdef", cwd=str(agent.workspace), mcpServers=[])


def test_resume_replays_nothing(agent: Agent) -> None:
    session_id = agent.new_session()
    agent.call("session/resume", sessionId=session_id, cwd=str(agent.workspace))  # one that was never prompted
    agent.prompt(session_id, "hello")
    agent.quiet()
    since = len(agent.received)
    agent.call("session/resume", sessionId=session_id, cwd=str(agent.workspace))
    agent.quiet()
    chunks = [each for each in agent.updates(since=since) if each["sessionUpdate"].endswith("_chunk")]
    assert chunks == []
    assert agent.prompt(session_id, "and now?") == "end_turn"
    assert agent.said(since=since) == "Hello again."


def test_list_has_the_session_and_nothing_for_an_empty_folder(agent: Agent, tmp_path: Path) -> None:
    session_id = agent.new_session()
    assert session_id in {each["sessionId"] for each in agent.call("session/list")["sessions"]}
    assert session_id in {each["sessionId"] for each in agent.call("session/list", cwd=str(agent.workspace))["sessions"]}
    assert agent.call("session/list", cwd=str(tmp_path))["sessions"] == []


def test_delete_of_a_session_and_of_none(agent: Agent) -> None:
    session_id = agent.new_session()
    assert agent.call("session/delete", sessionId=session_id) == {}
    assert session_id not in {each["sessionId"] for each in agent.call("session/list")["sessions"]}
    assert agent.call("session/delete", sessionId=session_id) == {}
    assert agent.call("session/delete", sessionId="never-created") == {}
    assert agent.call("session/delete", sessionId="../../etc/passwd") == {}


def test_another_folder_is_accepted(agent: Agent, tmp_path: Path) -> None:
    assert agent.new_session(additionalDirectories=[str(tmp_path)])
    with pytest.raises(Refused):
        agent.new_session(additionalDirectories=["relative"])


def test_modes_name_the_current_one_and_can_be_set(agent: Agent) -> None:
    result = agent.call("session/new", cwd=str(agent.workspace), mcpServers=[])
    modes = result["modes"]
    assert modes["currentModeId"] in {each["id"] for each in modes["availableModes"]}
    since = len(agent.received)
    assert agent.call("session/set_mode", sessionId=result["sessionId"], modeId="manual") == {}
    agent.quiet()
    assert [each["currentModeId"] for each in agent.updates("current_mode_update", since)] == ["manual"]
    with pytest.raises(Refused):
        agent.call("session/set_mode", sessionId=result["sessionId"], modeId="no such mode")


def test_options_have_valid_values_and_setting_one_returns_all(agent: Agent) -> None:
    result = agent.call("session/new", cwd=str(agent.workspace), mcpServers=[])
    options = {each["id"]: each for each in result["configOptions"]}
    assert list(options) == ["mode", "model", "calls"]
    for each in options.values():
        assert each["currentValue"] in {value["value"] for value in each["options"]}
    for option_id, value in (("mode", "auto"), ("calls", "text"), ("model", options["model"]["options"][-1]["value"])):
        answer = agent.call("session/set_config_option", sessionId=result["sessionId"], configId=option_id, value=value)
        found = {each["id"]: each["currentValue"] for each in answer["configOptions"]}
        assert set(found) == set(options)
        assert found[option_id] == value
    for option_id, value in (("mode", "no such mode"), ("no such option", "1")):
        with pytest.raises(Refused):
            agent.call("session/set_config_option", sessionId=result["sessionId"], configId=option_id, value=value)


def test_no_boolean_option_without_the_client_s_word(agent: Agent) -> None:
    result = agent.call("session/new", cwd=str(agent.workspace), mcpServers=[])
    assert [each for each in result["configOptions"] if each["type"] == "boolean"] == []


def test_prompt_with_a_picture(agent: Agent) -> None:
    _prompts(agent, {"type": "image", "data": PIXEL, "mimeType": "image/png"})


def test_audio_is_neither_offered_nor_taken(agent: Agent) -> None:
    with pytest.raises(Refused):
        _prompts(agent, {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"})


def test_prompt_with_an_embedded_document(agent: Agent) -> None:
    _prompts(
        agent,
        {"type": "resource", "resource": {"uri": "file:///elsewhere/a.txt", "text": "the text", "mimeType": "text/plain"}},
    )


def test_prompt_with_a_link(agent: Agent) -> None:
    _prompts(agent, {"type": "resource_link", "uri": f"file://{agent.workspace}/list.txt", "name": "list.txt"})


def _prompts(agent: Agent, block: Message) -> None:
    session_id = agent.new_session()
    answer = agent.call("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hello"}, block])
    assert answer["stopReason"] in STOP_REASONS


def test_meta_is_accepted(agent: Agent) -> None:
    session_id = agent.new_session(_meta={"cwd": "/elsewhere"})
    meta = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "session_id": "x"}
    answer = agent.call("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "hello"}], _meta=meta)
    assert answer["stopReason"] == "end_turn"


def test_nothing_is_asked_that_the_client_did_not_offer(agent: Agent) -> None:
    agent.prompt(agent.new_session(), "write the greeting")
    assert {each["method"] for each in agent.asked} == {"session/request_permission"}


def test_a_terminal_method_only_where_the_client_has_terminals_for_it(agent: Agent) -> None:
    methods = agent.initialize(auth={"terminal": True})["authMethods"]
    assert [(each["id"], each.get("type")) for each in methods] == [("find-model-server", None), ("setup", "terminal")]
    methods = agent.initialize()["authMethods"]
    assert [(each["id"], each.get("type")) for each in methods] == [("find-model-server", None)]
    assert all(each["name"] for each in methods)


def test_authenticate_lets_sessions_begin(agent: Agent) -> None:
    assert agent.call("authenticate", methodId="find-model-server") == {}
    assert agent.new_session()
    with pytest.raises(Refused):
        agent.call("authenticate", methodId="no such method")


def test_logout_is_not_offered(agent: Agent) -> None:
    assert agent.initialize()["agentCapabilities"]["auth"] == {}
    with pytest.raises(Refused):
        agent.call("logout")


def test_the_end_of_input_ends_the_process(start: Start) -> None:
    agent = start()
    agent.initialize()
    agent.new_session()
    assert agent.end() < 2


def _kind(message: Message) -> str:
    return str(message["params"]["update"]["sessionUpdate"]) if message.get("method") == "session/update" else ""
