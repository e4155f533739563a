"""Tools and their calls as plain text, for models and servers that know no structured calls.

The forms are those that small models fall into by themselves: a fenced JSON object for a call, `<tool_response>` for results.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lmtui.core.messages import CallForm, Message, Role, ToolCall, ToolSpec

DONE = "done"
_END, _NO_END = "</tool_response>", "<\\/tool_response>"  # what a file holds does not end the result that shows it
_HOW = {
    CallForm.TEXT: (
        "To use a tool, answer with only this block and wait for the result:\n"
        '```json\n{"name": TOOL, "arguments": {…}}\n```\n'
        "When the task is complete, answer in plain words without a block."
    ),
    CallForm.SCHEMA: (
        "Every answer is one JSON object. To use a tool:\n"
        '{"name": TOOL, "arguments": {…}}\n'
        "When the task is complete:\n"
        '{"name": "done", "arguments": {"answer": "what to tell the user"}}'
    ),
}


def tools_text(tools: Sequence[ToolSpec], form: CallForm) -> str:
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


_EXAMPLES = (
    (
        'greet.py prints "Helo". Fix that.',
        (
            ("read", '{"path": "greet.py"}', '    1  print("Helo")'),
            ("edit", '{"path": "greet.py", "search": "Helo", "replace": "Hello"}', "ok"),
        ),
        'greet.py prints "Hello" now.',
    ),
    (
        "Make run.sh executable.",
        (("shell", '{"command": "chmod +x run.sh"}', "(no output)"),),
        "run.sh is executable now.",
    ),
)


def call_text(call: ToolCall, form: CallForm) -> str:
    """Return a call as the model should have written it."""
    body = f'{{"name": {json.dumps(call.name)}, "arguments": {call.sent_arguments}}}'
    return body if form is CallForm.SCHEMA else f"```json\n{body}\n```"


def done_text(text: str) -> str:
    """Return the end of a task in the schema's form."""
    return json.dumps({"name": DONE, "arguments": {"answer": text}}, ensure_ascii=False)


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
