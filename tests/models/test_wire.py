from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.messages import Image, Message, ModelRequest, Role, ToolCall, ToolCallFormat, ToolChoice, ToolSpec
from lmtui.models.request_encoding import RequestWriter
from tests.fakes import role_problem
from tests.sets import for_each

READ = ToolSpec("read", "Read a file.", {
    "type": "object",
    "properties": {"path": {"type": "string"}, "offset": {"type": "integer", "description": "first line"}},
    "required": ["path"],
})  # fmt: skip
STATUS = ToolSpec("git_status", "Show what changed.", {"type": "object", "properties": {}})
MESSAGES = (
    Message(Role.SYSTEM, "You are lmtui."), Message(Role.USER, "what is in a.txt?"),
    Message(
        Role.ASSISTANT, "I look.", tool_calls=(ToolCall("c1", "read", '{"path": "a.txt"}'), ToolCall("c2", "read", "broken {"))
    ),
    Message(Role.TOOL, "forty-two", call_id="c1"),
    Message(Role.TOOL, "not understood", call_id="c2"),
    Message(Role.ASSISTANT, "It says forty-two."),
)  # fmt: skip
REQUEST = ModelRequest(MESSAGES, (STATUS, READ), "m")


def body_of(request: ModelRequest, **extra: object) -> dict[str, Any]:
    return dict(json.loads(RequestWriter().write(request, extra)))


def test_each_form_of_calls_tells_the_tools_and_the_calls_in_its_own_way() -> None:
    body = body_of(REQUEST)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["git_status", "read"]
    assert body["messages"][0]["content"] == "You are lmtui."
    assert body["messages"][2]["tool_calls"][1]["function"]["arguments"] == "{}"
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    body = body_of(replace(REQUEST, call_form=ToolCallFormat.TEXT))
    assert "tools" not in body
    assert "response_format" not in body
    system, _, calling, results, last = body["messages"]
    assert system["content"].startswith("You are lmtui.\n\n# Tools\n- git_status(): Show what changed.\n")
    assert "- read(path: text, offset?: integer (first line)): Read a file." in system["content"]
    assert '{"name": TOOL, "arguments": {…}}' in system["content"]
    assert calling["content"].startswith('I look.\n```json\n{"name": "read", "arguments": {"path": "a.txt"}}\n```')
    assert (results["role"], results["content"].count("<tool_response>")) == ("user", 2)
    assert last["content"] == "It says forty-two."
    body = body_of(replace(REQUEST, call_form=ToolCallFormat.SCHEMA))
    choices = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [choice["properties"]["name"]["const"] for choice in choices] == ["git_status", "read", "done"]
    assert choices[1]["properties"]["arguments"]["required"] == ["path"]
    calling, last = body["messages"][2], body["messages"][4]
    assert json.loads(calling["content"].splitlines()[0]) == {"name": "read", "arguments": {"path": "a.txt"}}
    assert json.loads(last["content"]) == {"name": "done", "arguments": {"answer": "It says forty-two."}}


@for_each("form", ToolCallFormat)
def test_one_held_answer_changes_nothing_before_the_end(form: ToolCallFormat) -> None:
    writer = RequestWriter()
    request = replace(REQUEST, call_form=form)
    plain = writer.write(request)
    held = writer.write(replace(request, hold=ToolChoice.REQUIRED))
    assert held.startswith(plain.split(b',"response_format"')[0].removesuffix(b"}"))
    assert "response_format" in json.loads(held)


def test_an_answer_may_be_held_to_a_call_or_to_the_end() -> None:
    def names(hold: ToolChoice, form: ToolCallFormat) -> list[str]:
        body = body_of(replace(REQUEST, hold=hold, call_form=form))
        choices = body["response_format"]["json_schema"]["schema"]["anyOf"]
        return [choice["properties"]["name"]["const"] for choice in choices]

    assert names(ToolChoice.REQUIRED, ToolCallFormat.NATIVE) == ["git_status", "read"]
    assert names(ToolChoice.NONE, ToolCallFormat.TEXT) == ["done"]
    looks = replace(REQUEST, tools=(*REQUEST.tools, replace(READ, name="write"), replace(READ, name="shell")))
    held = body_of(replace(looks, hold=ToolChoice.LOOK))["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [choice["properties"]["name"]["const"] for choice in held] == ["git_status", "read"]
    assert names(ToolChoice.AUTO, ToolCallFormat.SCHEMA) == ["git_status", "read", "done"]


STEP = (Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "read", "{}"),)), Message(Role.TOOL, "text", call_id="c"))
SAID, ANSWERED = (Message(Role.USER, "words"),), (Message(Role.ASSISTANT, "answer"),)
EMPTY = (Message(Role.ASSISTANT, "\n"),)


@given(
    st.lists(st.lists(st.sampled_from([SAID, ANSWERED, EMPTY, STEP]), max_size=4), max_size=6), st.sampled_from(ToolCallFormat)
)
def test_whatever_was_said_strict_templates_take_it_and_what_was_sent_stays(
    turns: list[list[tuple[Message, ...]]], form: ToolCallFormat
) -> None:
    messages: tuple[Message, ...] = MESSAGES[:1]
    writer, before = RequestWriter(), list[dict[str, Any]]()
    for turn in turns:
        messages = (*messages, *SAID, *(message for part in turn for message in part), *SAID)
        sent = json.loads(writer.write(replace(REQUEST, messages=messages, call_form=form)))["messages"]
        assert (role_problem(sent), sent[: len(before)]) == ("", before)
        before = sent


def test_two_messages_of_the_users_are_one_with_the_pictures_of_both() -> None:
    picture = Image("a.png", "image/png", b"x")
    messages = (Message(Role.USER, "one"), Message(Role.USER, "two", images=(picture,)), Message(Role.USER, "three"))
    (joined,) = body_of(replace(REQUEST, messages=messages))["messages"]
    assert [part.get("text", part["type"]) for part in joined["content"]] == ["one", "two", "image_url", "three"]
