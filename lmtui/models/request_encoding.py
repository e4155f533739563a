"""Requests as bytes.  `messages` grows only at its end, so the bytes of a request begin with the one before.

Format: the chat-completions request of the OpenAI API, as local servers take it.  What changes from request to request is
behind `messages`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from lmtui.core.messages import (
    EXAMPLE_FILES,
    INTERRUPTED,
    Message,
    ModelRequest,
    Role,
    SchemaRequest,
    ToolCall,
    ToolCallFormat,
    ToolChoice,
    ToolSpec,
)
from lmtui.core.permissions.rules import FileEffect, traits_of
from lmtui.models.parsing.call_shapes import required

OPTIONAL_FIELDS = ("stream_options", "temperature", "top_p", "seed", "repeat_penalty", "max_tokens")
DONE = "done"
_END, _NO_END = "</tool_response>", "<\\/tool_response>"  # what a file holds does not end the result that shows it
_HOW = {
    ToolCallFormat.TEXT: (
        "To use a tool, answer with only this block and wait for the result:\n"
        '```json\n{"name": TOOL, "arguments": {…}}\n```\n'
        "When the task is complete, answer in plain words without a block."
    ),
    ToolCallFormat.SCHEMA: (
        "Every answer is one JSON object. To use a tool:\n"
        '{"name": TOOL, "arguments": {…}}\n'
        "When the task is complete:\n"
        '{"name": "done", "arguments": {"answer": "what to tell the user"}}'
    ),
}


def tools_text(tools: Sequence[ToolSpec], form: ToolCallFormat) -> str:
    """Return what the system prompt says of the tools: a line each, and how to call them."""
    if not tools:
        return ""
    return "\n".join(("# Tools", *map(_line, tools), "", _HOW[form]))


def worked_example(tools: Sequence[ToolSpec]) -> list[Message]:
    """Return a short conversation that shows how it is done; small models do as they have seen, not as they are told."""
    if not {"read", "edit", "shell"} <= {spec.name for spec in tools}:
        return []
    shown: list[Message] = []
    for ask, steps, answer in _EXAMPLES:
        shown.append(Message(Role.USER, ask))
        for name, arguments, result in steps:
            call = ToolCall(f"example_{name}", name, arguments)
            shown += [Message(Role.ASSISTANT, "", tool_calls=(call,)), Message(Role.TOOL, result, call_id=call.id)]
        shown.append(Message(Role.ASSISTANT, answer))
    return shown


_CODE, _SCRIPT = EXAMPLE_FILES
_EXAMPLES = (
    (
        f'{_CODE} prints "Tuseday". Fix that.',
        (
            ("read", f'{{"path": "{_CODE}"}}', '    1  print("Tuseday")'),
            ("edit", f'{{"path": "{_CODE}", "search": "Tuseday", "replace": "Tuesday"}}', "ok"),
        ),
        f'{_CODE} prints "Tuesday" now.',
    ),
    (
        f"Make {_SCRIPT} executable.",
        (("shell", f'{{"command": "chmod +x {_SCRIPT}"}}', "(no output)"),),
        f"{_SCRIPT} is executable now.",
    ),
)


def call_text(call: ToolCall, form: ToolCallFormat) -> str:
    """Return a call as the model should have written it."""
    body = f'{{"name": {json.dumps(call.sent_name)}, "arguments": {call.sent_arguments}}}'
    return body if form is ToolCallFormat.SCHEMA else f"```json\n{body}\n```"


def results_text(results: Sequence[Message]) -> str:
    """Return what calls gave, as one message of the user's."""
    return "\n".join(f"<tool_response>\n{result.text.replace(_END, _NO_END)}\n{_END}" for result in results)


def answer_schema(tools: Sequence[ToolSpec], *, may_end: bool) -> dict[str, object]:
    """Return the JSON schema of an answer: one call, or with `may_end` the end of the task."""
    choices = [_choice(spec.name, spec.parameters) for spec in tools]
    if may_end:
        answer: dict[str, object] = {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
            "additionalProperties": False,
        }
        choices.append(_choice(DONE, answer))
    return {"anyOf": choices}


def _choice(name: str, parameters: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": {**parameters, "additionalProperties": False}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _line(spec: ToolSpec) -> str:
    properties = spec.parameters.get("properties")
    needed = required(spec)
    shown: list[str] = []
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        mark = "" if name in needed else "?"
        shown.append(f"{name}{mark}: {_kind(schema)}")
    return f"- {spec.name}({', '.join(shown)}): {spec.description}"


def _kind(schema: object) -> str:
    if not isinstance(schema, dict):
        return "text"
    if isinstance(schema.get("enum"), list):
        return "|".join(str(each) for each in schema["enum"])
    kind = str(schema.get("type", "text"))
    named = {"string": "text", "array": "list"}.get(kind, kind)
    note = schema.get("description")
    return f"{named} ({note})" if isinstance(note, str) else named


_SHOWN = "What the calls above show:"


class RequestWriter:
    """Writes the requests of one conversation; what was written once is not written again."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._told: tuple[ToolCallFormat, tuple[ToolSpec, ...], bool, bool] = (ToolCallFormat.NATIVE, (), True, False)
        self._parts: list[bytes] = []
        self._last: dict[str, object] = {}

    def write(self, request: ModelRequest, extra: Mapping[str, object] | None = None, without: Collection[str] = ()) -> bytes:
        """Return the body of a streaming request; `extra` are fields of this kind of server, `without` refused ones."""
        self._extend(request)
        head = _utf8(_dump({name: value for name, value in _head(request).items() if name not in without}))
        tail = _tail(request) | {name: value for name, value in (extra or {}).items() if name not in without}
        end = _utf8(f",{_dump(tail)[1:]}" if tail else "}")
        return b"".join((head[:-1], b',"messages":[', b",".join(self._parts), b"]", end))

    def prefix_digest(self, request: ModelRequest, count: int = 0) -> tuple[str, int]:
        """Return a digest of the tools and the first messages of a request (0: all that it has), and how many those are."""
        self._extend(request)
        count = count or len(self._parts)
        if count > len(self._parts):
            return "", count
        tools = _utf8(_dump(_head(request).get("tools", [])))
        return hashlib.sha256(b"\n".join((tools, *self._parts[:count]))).hexdigest(), count

    def _extend(self, request: ModelRequest) -> None:
        messages, form = request.messages, request.call_form
        tools = () if form is ToolCallFormat.NATIVE else request.tools  # in text the tools stand in the system prompt
        told = (form, tools, request.sees, request.shows_example)
        known = len(self._messages)
        is_grown = len(messages) >= known and all(old is new for old, new in zip(self._messages, messages, strict=False))
        if not is_grown or told != self._told:
            known = 0
            self._parts.clear()
        self._messages, self._told = messages, told
        new = alternating(wire_messages(messages[known:], request), self._last if known else {})
        self._last = new[-1] if new else self._last
        self._parts += [_utf8(_dump(each)) for each in new]


_GO_ON, _NO_ANSWER = "(go on)", "(no answer)"


def alternating(messages: Sequence[dict[str, object]], last: dict[str, object]) -> list[dict[str, object]]:
    """Return messages as the strictest chat templates take them: user and assistant in turn, and no user right behind a result.

    Two of the user's become one; between others goes a word of the other side, and an empty answer becomes one.  `last` was
    sent before and stays as it is.
    """
    written: list[dict[str, object]] = []
    for message in messages:
        before, role, content = last.get("role"), message["role"], message["content"]
        if role == "assistant" and not ("tool_calls" in message or str(content).strip()):
            content = _NO_ANSWER
        if written and role == before == "user":
            content = _joined(written.pop()["content"], content)
        elif role == "user" and before in ("user", "tool"):
            written.append({"role": "assistant", "content": INTERRUPTED})
        elif role == before == "assistant":
            written.append({"role": "user", "content": _GO_ON})
        last = message | {"content": content}
        written.append(last)
    return written


def _joined(first: object, second: object) -> object:
    """Return two contents as one, in parts if one of them has parts."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    parts = ([{"type": "text", "text": each}] if isinstance(each, str) else each for each in (first, second))
    return [part for each in parts if isinstance(each, list) for part in each]


def wire_messages(messages: Sequence[Message], request: ModelRequest) -> list[dict[str, object]]:
    """Return messages as servers take them, in the request's form of calls.

    A result can hold no picture, so what results show comes behind them.  For a server that knows no
    calls the results of one answer are one message: strict templates take no two of one role in a row.
    """
    is_native = request.call_form is ToolCallFormat.NATIVE
    shown = messages if request.sees else tuple(map(_without_pictures, messages))
    written: list[dict[str, object]] = []
    for is_result, group in groupby(_with_example(shown, request), key=lambda message: message.role is Role.TOOL):
        some = list(group)
        images = tuple(image for message in some for image in message.images) if is_result else ()
        if is_native or not is_result:
            written += [wire_message(message) if is_native else _as_text(message, request) for message in some]
        if images or (is_result and not is_native):
            text = _SHOWN if is_native else results_text(some)
            written.append(wire_message(Message(Role.USER, text, images=images)))
    return written


def _with_example(messages: Sequence[Message], request: ModelRequest) -> Sequence[Message]:
    """Return messages with the worked example behind the system prompt, where that is among them."""
    if not request.shows_example or not messages or messages[0].role is not Role.SYSTEM:
        return messages
    return [messages[0], *worked_example(request.tools), *messages[1:]]


def _without_pictures(message: Message) -> Message:
    """Return a message for a model that sees nothing, with a line in place of each picture."""
    if not message.images:
        return message
    gone = (f"[the picture {image.name} is not shown: you see no pictures]" for image in message.images)
    return replace(message, text="\n\n".join((message.text, *gone)), images=())


def wire_message(message: Message) -> dict[str, object]:
    """Return one message as servers take it; thinking is never sent back, `content` is never null (templates fail on it)."""
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    out: dict[str, object] = {"role": str(message.role), "content": _content(message)}
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.sent_name, "arguments": call.sent_arguments}}
            for call in message.tool_calls
        ]
    return out


def wire_tool(spec: ToolSpec) -> dict[str, object]:
    """Return one tool as servers take it."""
    return {"type": "function", "function": {"name": spec.name, "description": spec.description, "parameters": spec.parameters}}


def _as_text(message: Message, request: ModelRequest) -> dict[str, object]:
    """Return a message with the tools (in the system prompt) and the calls (in an answer) written into its text."""
    form = request.call_form
    text = message.text
    if message.role is Role.SYSTEM:
        text = "\n\n".join(part for part in (text, tools_text(request.tools, form)) if part)
    elif message.role is Role.ASSISTANT and form is ToolCallFormat.SCHEMA:
        done = {"name": DONE, "arguments": {"answer": text}}
        text = "\n".join(call_text(call, form) for call in message.tool_calls) or json.dumps(done, ensure_ascii=False)
    elif message.tool_calls:
        text = "\n".join(part for part in (text, *(call_text(call, form) for call in message.tool_calls)) if part)
    return {"role": str(message.role), "content": text if not message.images else _content(message)}


def _content(message: Message) -> str | list[dict[str, object]]:
    """Return the text, or with pictures the parts of the vision form: text first, then each picture as a data URL."""
    if not message.images:
        return message.text
    parts: list[dict[str, object]] = [{"type": "text", "text": message.text}]
    for image in message.images:
        data = base64.b64encode(image.data).decode("ascii")
        parts.append({"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{data}"}})
    return parts


def _head(request: ModelRequest) -> dict[str, object]:
    head: dict[str, object] = {"model": request.model} if request.model else {}
    head |= {"stream": True, "stream_options": {"include_usage": True}}
    head |= {name: value for name in OPTIONAL_FIELDS[1:] if (value := getattr(request, name)) is not None}
    if request.tools and request.call_form is ToolCallFormat.NATIVE:
        head["tools"] = [wire_tool(spec) for spec in request.tools]
    return head


def _tail(request: ModelRequest) -> dict[str, object]:
    """Return what holds the answer to a schema: in the schema's form, or for a single answer that must be a call."""
    if isinstance(request, SchemaRequest):
        return _held_to(request.answer_schema)
    if not request.tools or (request.hold is ToolChoice.AUTO and request.call_form is not ToolCallFormat.SCHEMA):
        return {}
    tools = () if request.hold is ToolChoice.NONE else request.tools
    if request.hold is ToolChoice.LOOK:  # a model that is pressed would write whatever it has
        tools = tuple(spec for spec in tools if traits_of(spec.name).file_effect in (FileEffect.SHOWS, FileEffect.LISTS))
    return _held_to(answer_schema(tools, may_end=not tools or request.hold is ToolChoice.AUTO))


def _held_to(schema: Mapping[str, object]) -> dict[str, object]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}}


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
