"""What a value means as a call: the names that models give to the tool and to its arguments."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from lmtui.core.messages import ToolSpec
from lmtui.models.parsing.literals import (
    ToolNames,
    UnreadableLiteral,
    has_required,
    own_parameter,
    parameters,
    read_json,
    required,
    type_of,
)

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?\d{1,17}(?:\.\d{1,17})?")
_PATHS = frozenset(("path", "file", "cwd"))
_PLACEHOLDER = re.compile(r"<[^<>\n]{1,80}>|\{\{[^{}\n]{1,80}\}\}")
_DRIVE = re.compile(r"[A-Za-z]:[\\\t\r\b\f\n]")
_BACKSLASHED = str.maketrans({"\t": r"\t", "\r": r"\r", "\b": r"\b", "\f": r"\f", "\n": r"\n"})
_WORDS = {"true": True, "false": False}


NO_SUCH_TOOL = "no such tool"


def _typed(value: object, kind: str) -> object:
    """Return a value in the type that a schema asks for, where it has one reading in it; else as it is."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    match kind:
        case "integer":
            return int(text) if _WHOLE.fullmatch(text) else value
        case "number":
            return json.loads(text) if _DECIMAL.fullmatch(text) and _WHOLE.match(text) else value
        case "boolean":
            return _WORDS.get(text.lower(), value)
        case "array" | "object":
            return _structure(text, value, list if kind == "array" else dict)
    return value


def _structure(text: str, value: str, kind: type) -> object:
    try:
        found = read_json(text)
    except UnreadableLiteral:
        return value
    return found if isinstance(found, kind) else value


NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "toolName", "action", "recipient_name")
ARGUMENT_KEYS = ("arguments", "args", "parameters", "params", "input", "tool_input", "action_input", "toolInput", "kwargs")
_BESIDE = frozenset(
    {"type", "id", "call_id", "tool_call_id", "index", "thought", "thoughts", "reasoning", "thinking", "comment"}
)
_SEVERAL = ("tool_calls", "calls", "function_call", "tool_call", "tool_uses")
_TYPES = frozenset(("string", "integer", "number", "boolean", "array", "object"))
_SCHEMA_WORDS = frozenset(("required", "properties", "strict", "description"))
FIRST_KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *_BESIDE, *_SEVERAL, "role"))


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call that was found: a known tool and its arguments."""

    spec: ToolSpec
    arguments: dict[str, object]


@dataclass(frozen=True, slots=True)
class RejectedCall:
    """Something that was meant as a call and is none: why, in a clause, and the tool that it names if that is known."""

    why: str
    spec: ToolSpec | None = None


def meant(spec: ToolSpec, arguments: dict[str, object]) -> ParsedCall | RejectedCall:
    """Return the call of a tool with arguments under their own names, or why that is none.

    What the tool does not know stays, for the tool to say so.
    """
    if not parameters(spec) and not required(spec):
        return ParsedCall(spec, arguments)
    fit: dict[str, object] = {}
    for name, value in arguments.items():
        own = own_parameter(spec, name) or name
        typed = _typed(value, type_of(spec, own))
        if own in _PATHS and isinstance(value, str):
            if _PLACEHOLDER.fullmatch(value):
                return RejectedCall(f"its {own} is a placeholder", spec)
            typed = value.translate(_BACKSLASHED) if _DRIVE.match(value) else value  # a drive's were read as escapes
        if own in fit and fit[own] != typed:
            return RejectedCall(f"it gives {own} twice", spec)
        fit[own] = typed
    missing = [name for name in required(spec) if fit.get(name) is None]
    if missing:
        return RejectedCall(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", spec)
    return ParsedCall(spec, fit)


def calls_in(value: object, tools: ToolNames, *, is_marked: bool = False) -> list[ParsedCall | RejectedCall]:
    """Return what a value calls; empty where it is data that calls nothing.

    Args:
        value: an object, or a list of them.
        tools: what may be called.
        is_marked: it is between the marks of a call, so that a name alone is one too.
    """
    if isinstance(value, list):
        found = [calls_in(each, tools, is_marked=is_marked) if isinstance(each, dict) else [] for each in value]
        if not is_marked and not all(found):
            return []
        return [each for part in found for each in part]
    if not isinstance(value, dict):
        return []
    for key in _SEVERAL:
        if isinstance(value.get(key), list | dict):
            return calls_in(value[key], tools, is_marked=True)
    inner = value.get("function")
    if isinstance(inner, dict):
        return calls_in(inner, tools, is_marked=is_marked)
    one = _named(value, tools, is_marked=is_marked) or _keyed(value, tools)
    return [one] if one is not None else []


def _named(value: dict[str, object], tools: ToolNames, *, is_marked: bool) -> ParsedCall | RejectedCall | None:
    name_key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), "")
    if not name_key:
        return None
    argument_key = next((key for key in ARGUMENT_KEYS if key in value and key != name_key), "")
    spec = tools.find(value[name_key])
    if spec is None:
        given = value.get(argument_key)
        is_meant = isinstance(given, dict) and not is_definition(value, argument_key)
        if not isinstance(given, dict) or not is_meant or (name_key == "action" and not is_marked):
            return None
        hidden = tools.hidden(value[name_key], given)
        is_call = hidden is not None and (is_marked or not _is_data(hidden, value))
        return meant(hidden, given) if hidden is not None and is_call else RejectedCall(NO_SUCH_TOOL)
    if argument_key:
        if not is_marked and _is_data(spec, value):
            return None
        if is_definition(value, argument_key):
            return RejectedCall("it describes the tool and does not call it", spec)
        return with_arguments(spec, value[argument_key])
    rest = {key: each for key, each in value.items() if key != name_key and key not in _BESIDE}
    if not rest:
        return ParsedCall(spec, {}) if is_marked and not required(spec) else None
    if has_required(spec, rest) and all(own_parameter(spec, key) for key in rest):
        return meant(spec, rest)
    return None


def _is_data(spec: ToolSpec, value: dict[str, object]) -> bool:
    """Tell whether an object has two names or more that no call has: a package, a record of something."""
    known = {*NAME_KEYS, *ARGUMENT_KEYS, *_BESIDE, *_SCHEMA_WORDS}
    return sum(key not in known and not own_parameter(spec, key) for key in value) >= 2


def is_definition(value: dict[str, object], argument_key: str) -> bool:
    """Tell whether an object is a tool's definition: a schema, or nothing but names of types, is where arguments should."""
    schema = value[argument_key]
    if not isinstance(schema, dict):
        return False
    if schema and all(isinstance(each, str) and each in _TYPES for each in schema.values()):
        return True
    return isinstance(schema.get("properties"), dict) and schema.get("type") == "object"


def with_arguments(spec: ToolSpec, given: object) -> ParsedCall | RejectedCall:
    """Return the call of a tool: its arguments came as an object, as a text that holds one, or as the one text it needs."""
    if isinstance(given, str):
        try:
            inner = read_json(given) if given.lstrip()[:1] == "{" else None
        except UnreadableLiteral as error:
            return RejectedCall(str(error), spec)
        if isinstance(inner, dict):
            return meant(spec, inner)
        needed = required(spec)
        if len(needed) == 1 and type_of(spec, needed[0]) == "string" and given.strip():
            return ParsedCall(spec, {needed[0]: given})
        return meant(spec, {}) if not given.strip() else RejectedCall("its arguments have no names", spec)
    if given is None:
        return meant(spec, {})
    if not isinstance(given, dict):
        return RejectedCall("its arguments have no names", spec)
    return meant(spec, given)


def _keyed(value: dict[str, object], tools: ToolNames) -> ParsedCall | RejectedCall | None:
    """Return the call of an object whose one name is a tool's: `{"read": {"path": …}}`."""
    if len(value) != 1:
        return None
    ((name, arguments),) = value.items()
    spec = tools.find(name)
    if spec is None or not isinstance(arguments, dict) or not has_required(spec, arguments):
        return None
    return meant(spec, arguments) if all(own_parameter(spec, key) for key in arguments) else None
