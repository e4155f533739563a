from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

from lmtui.core.messages import Image, Message, ModelRequest, Role, ToolCall, ToolCallFormat
from lmtui.models.request_encoding import RequestWriter
from tests.sets import for_each

SHOT = Image("shot.png", "image/png", b"\x89PNG\r\n\x1a\n")
PLOT = Image("plot.gif", "image/gif", b"GIF89a")
TALK = (
    Message(Role.SYSTEM, "You help."), Message(Role.USER, "compare", images=(PLOT,)),
    Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c1", "look", '{"path": "shot.png"}'), ToolCall("c2", "ls", "{}"))),
    Message(Role.TOOL, "The picture shot.png is attached.", call_id="c1", images=(SHOT,)),
    Message(Role.TOOL, "shot.png", call_id="c2"),
)  # fmt: skip
REQUEST = ModelRequest(TALK, (), "model")


def written(request: ModelRequest) -> list[dict[str, Any]]:
    messages = json.loads(RequestWriter().write(request))["messages"]
    assert isinstance(messages, list)
    return messages


def pictures(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    return [part["image_url"]["url"] for part in content if part["type"] == "image_url"] if isinstance(content, list) else []


def url(image: Image) -> str:
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


@for_each("form", [ToolCallFormat.TEXT, ToolCallFormat.SCHEMA])
def test_in_text_results_and_what_they_show_are_one_message(form: ToolCallFormat) -> None:
    messages = written(replace(REQUEST, call_form=form))
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user"]
    assert (pictures(messages[-1]), messages[-1]["content"][0]["text"].count("<tool_response>")) == ([url(SHOT)], 2)


@for_each("form", list(ToolCallFormat))
def test_a_model_that_sees_nothing_is_told_of_pictures_in_words(form: ToolCallFormat) -> None:
    writer = RequestWriter()
    _ = writer.write(replace(REQUEST, call_form=form))  # other eyes write everything anew
    messages = json.loads(writer.write(replace(REQUEST, call_form=form, sees=False)))["messages"]
    assert messages == written(replace(REQUEST, call_form=form, sees=False))
    assert not any(pictures(each) for each in messages)
    text = json.dumps(messages)
    for name in ("plot.gif", "shot.png"):
        assert f"[the picture {name} is not shown: you see no pictures]" in text


@for_each("form", list(ToolCallFormat))
def test_with_pictures_too_a_request_begins_with_the_one_before(form: ToolCallFormat) -> None:
    writer = RequestWriter()
    first = writer.write(replace(REQUEST, call_form=form))
    grown = replace(REQUEST, call_form=form, messages=(*TALK, Message(Role.ASSISTANT, "They differ.")))
    second = writer.write(grown)
    assert second.startswith(first.partition(b'"messages":[')[0])
    body, longer = (json.loads(each)["messages"] for each in (first, second))
    assert (longer[: len(body)], second) == (body, RequestWriter().write(grown))
