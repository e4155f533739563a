"""Tools and their calls as plain text, for models and servers that know no structured calls.

The forms are those that small models fall into by themselves: a fenced JSON object for a call, `<tool_response>` for results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lmtui.core.messages import CallForm, Message, Role, ToolCall, ToolSpec

DONE = "done"
_SAMPLES = {"path": "src/main.py", "command": "ls -l", "pattern": "TODO"}
_HOW = {
    CallForm.TEXT: (
        "To use a tool, answer with only this block and wait for the result:\n"
        '```json\n{{"name": "{name}", "arguments": {{{arguments}}}}}\n```\n'
        "When the task is complete, answer in plain words without a block."
    ),
    CallForm.SCHEMA: (
        "Every answer is one JSON object. To use a tool:\n"
        '{{"name": "{name}", "arguments": {{{arguments}}}}}\n'
        "When the task is complete:\n"
        '{{"name": "done", "arguments": {{"answer": "what to tell the user"}}}}'
    ),
}


def tools_text(tools: Sequence[ToolSpec], form: CallForm) -> str:
    """Return what the system prompt says of the tools: a line each, and how to call them."""
    if not tools:
        return ""
    example = next((spec for spec in tools if _required(spec)), tools[0])
    arguments = ", ".join(f'"{name}": "{_SAMPLES.get(name, "text")}"' for name in _required(example))
    how = _HOW[form].format(name=example.name, arguments=arguments)
    return "\n".join(("# Tools", *map(_line, tools), "", how))


def worked_example(tools: Sequence[ToolSpec], form: CallForm) -> list[Message]:
    """Return a short conversation that shows how it is done; small models do as they have seen, not as they are told."""
    known = {spec.name for spec in tools}
    shown: list[Message] = []
    for ask, name, arguments, result, answer in _EXAMPLES if {"read", "shell"} <= known else ():
        call = ToolCall("", name, arguments)
        shown += [
            Message(Role.USER, ask),
            Message(Role.ASSISTANT, call_text(call, form)),
            Message(Role.USER, results_text([Message(Role.TOOL, result)])),
            Message(Role.ASSISTANT, done_text(answer) if form is CallForm.SCHEMA else answer),
        ]
    return shown


_EXAMPLES = (
    ("What does port.txt say?", "read", '{"path": "port.txt"}', "    1  8080", "port.txt says 8080."),
    ("Make a folder named build.", "shell", '{"command": "mkdir build"}', "(no output)", "The folder build is made."),
)


def call_text(call: ToolCall, form: CallForm) -> str:
    """Return a call as the model should have written it."""
    body = f'{{"name": {json.dumps(call.name)}, "arguments": {_object(call.arguments)}}}'
    return body if form is CallForm.SCHEMA else f"```json\n{body}\n```"


def done_text(text: str) -> str:
    """Return the end of a task in the schema's form."""
    return json.dumps({"name": DONE, "arguments": {"answer": text}}, ensure_ascii=False)


def results_text(results: Sequence[Message]) -> str:
    """Return what calls gave, as one message of the user's."""
    return "\n".join(f"<tool_response>\n{result.text}\n</tool_response>" for result in results)


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
    required = _required(spec)
    shown: list[str] = []
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        mark = "" if name in required else "?"
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


def _required(spec: ToolSpec) -> tuple[str, ...]:
    required = spec.parameters.get("required")
    return tuple(str(each) for each in required) if isinstance(required, list) else ()


def _object(arguments: str) -> str:
    """Return arguments as they are sent back: broken JSON as an empty object, its error result says why."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    return arguments if is_object else "{}"
