"""What servers call their tools and say of them, made fit for a model and a screen: it is hostile until it has passed here."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import UnionType
from typing import Any

from lmtui.core.errors import McpError
from lmtui.core.permissions.rules import MCP
from lmtui.core.prompt_text import split_arguments
from lmtui.core.sanitize import sanitize, sanitize_line, sanitize_path
from lmtui.core.tool_servers import Resource
from lmtui.features.mcp.values import McpPrompt, McpTool, ToolChange

MAX_NAME_CHARS = 64
MAX_TOOLS = 1000
_MAX_KEY_CHARS = 24
_MAX_DESCRIPTION_CHARS = 600
_MAX_NESTED_CHARS = 200
_MAX_SCHEMA_CHARS = 20_000
_MAX_DEPTH = 12
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_HIDDEN_NAMES = re.compile(r"<U\+[0-9A-F]{4,6}>|[\u2400-\u2421]")
# What a chat template or our own form of calls in text would read as its own: `<|im_start|>`, `[INST]`, `<tool_call>`, fences.
_MARKUP = re.compile(
    r"<\|(?:[^|>]{0,40}\|>)?|</?[A-Za-z_][\w.:-]{0,40}[^<>]{0,80}>|\[/?[A-Z_]{2,20}\]|<<[^<>]{0,20}>>|```+|~~~+"
)
_KEPT_WORDS: Mapping[str, type | UnionType] = {
    "type": str | list, "properties": dict, "required": list, "items": dict | bool, "enum": list, "const": object,
    "anyOf": list, "oneOf": list, "allOf": list, "additionalProperties": dict | bool, "default": object, "prefixItems": list,
    "$ref": str, "$defs": dict, "definitions": dict,
}  # fmt: skip
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_TOLD_RULES = ("format", "pattern")  # grammars of servers take few of these: the model is told, the MCP server checks
_MAPS = frozenset({"properties", "$defs", "definitions"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SHAPES = _KEPT_WORDS.keys() - {"required", "additionalProperties", "default", *_MAPS} | {"properties"}
_ANY = [{"type": name} for name in sorted(_TYPES - {"integer"})]


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool as its server lists it."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


def tools_digest(tools: Sequence[RawTool]) -> str:
    """Return the hash of a list of tools, whatever their order: all that a model is told about them."""
    told = sorted((tool.name, tool.description, json.dumps(tool.schema, sort_keys=True, default=str)) for tool in tools)
    return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogatepass")).hexdigest()


_ABOUT_READER = "Read a resource of this server by its uri; without one, list them."
_READER: Mapping[str, object] = {"type": "object", "properties": {"uri": {"type": "string"}}}


def told_tools(server: str, tools: Iterable[RawTool], taken: set[str], *, reads: bool = False) -> tuple[McpTool, ...]:
    """Return a server's tools as the model is told about them, sorted by name; `taken` are names that others have.

    With `reads`, lmtui's own tool that reads the server's resources comes last.
    """
    found: list[McpTool] = []
    for tool in sorted(tools, key=lambda tool: tool.name)[:MAX_TOOLS]:
        name = told_name(server, tool.name, taken)
        taken.add(name)
        schema = told_schema(tool.schema)
        found.append(McpTool(name, server, tool.name, harmless(tool.description, _MAX_DESCRIPTION_CHARS), schema))
    if reads:
        name = told_name(server, "read_resource", taken)
        found.append(McpTool(name, server, "read_resource", _ABOUT_READER, dict(_READER), reads=True))
    return tuple(found)


def told_name(server: str, tool: str, taken: Iterable[str] = ()) -> str:
    """Return `mcp__server__tool` in letters, digits, `_` and `-`, at most 64 of them; a short hash makes it the only one."""
    head = f"{MCP}{server_key(server)}__"
    wanted = head + plain(tool)
    if len(wanted) <= MAX_NAME_CHARS and wanted not in taken:
        return wanted
    mark = _mark(f"{server}\0{tool}")
    return f"{head}{plain(tool)[: MAX_NAME_CHARS - len(head) - 7]}_{mark}"


def server_key(server: str) -> str:
    """Return what means a server in the names of its tools: its name, or what no other server has, so that rules hold."""
    key = re.sub("_{2,}", "_", plain(server))
    if key == server and len(key) <= _MAX_KEY_CHARS:
        return key
    return f"{key[: _MAX_KEY_CHARS - 7].rstrip('_')}_{_mark(server)}"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def plain(name: str) -> str:
    """Return a name in the characters that every API takes."""
    return _NOT_IN_NAMES.sub("_", name).strip("_") or "x"


def harmless(text: str, most: int) -> str:
    """Return a server's words on one line, without hidden characters and without what a chat template would obey."""
    text = _HIDDEN_NAMES.sub("", sanitize(text[: most * 4]))
    text = _MARKUP.sub(" ", text)
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def told_schema(schema: Mapping[str, Any]) -> dict[str, object]:
    """Return a JSON Schema with its words cleaned and without what no model needs; a large one tells its top level alone."""
    places = (schema.get("$defs"), "#/$defs/"), (schema.get("definitions"), "#/definitions/")
    slim = _slim(schema, 0, {place + _word(name) for found, place in places if isinstance(found, dict) for name in found})
    slim.setdefault("properties", {})
    if len(json.dumps(slim)) > _MAX_SCHEMA_CHARS:
        properties = slim["properties"] if isinstance(slim["properties"], dict) else {}
        top = {name: {"type": value.get("type", "object")} for name, value in properties.items() if isinstance(value, dict)}
        slim = {"type": "object", "properties": dict(list(top.items())[:100]), "required": slim.get("required", [])}
    return {"type": "object", **{key: value for key, value in slim.items() if key != "type"}}


def _slim(value: Mapping[str, Any], depth: int, refs: Collection[str]) -> dict[str, object]:
    """Return what a grammar takes of a schema: words with a value of their own kind, and references that lead somewhere."""
    found: dict[str, object] = {}
    for key, each in value.items():
        fits = isinstance(each, _KEPT_WORDS.get(key, ()))
        if not fits or each == [] or depth > _MAX_DEPTH:
            continue
        if key in _MAPS:
            found[key] = {_word(name): _part(part, depth, refs) for name, part in each.items()}
        elif key in _LISTS:
            parts = [_part(part, depth, refs) for part in each]
            is_any = key in ("anyOf", "oneOf") and any(part.get("anyOf") is _ANY for part in parts)
            found |= {} if is_any else {key: parts}
        elif key == "items" or (key == "additionalProperties" and not isinstance(each, bool)):
            found[key] = _part(each, depth, refs)
        elif key == "type":
            names = [name for name in (each if isinstance(each, list) else [each]) if isinstance(name, str) and name in _TYPES]
            found |= {key: names if isinstance(each, list) else names[0]} if names else {}
        elif key == "required":
            found[key] = [_word(name) for name in each if isinstance(name, str)]
        elif key != "$ref" or each in refs:
            found[key] = _words(each)
    words = [value["description"]] if isinstance(value.get("description"), str) else []
    words += [f"({rule}: {value[rule]})" for rule in _TOLD_RULES if isinstance(value.get(rule), str)]
    return {**found, "description": harmless(" ".join(words), _MAX_NESTED_CHARS)} if any(words) else found


def _part(part: object, depth: int, refs: Collection[str]) -> dict[str, object]:
    """Return a part as model servers take it: none that is a boolean or has no type."""
    found = _slim(part, depth + 1, refs) if isinstance(part, dict) else {}
    return found if _SHAPES & found.keys() else {**found, "anyOf": _ANY}


def _words(value: object) -> object:
    """Return a value whose texts are on one line and free of hidden characters; they are data, so nothing else is taken out."""
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, list):
        return [_words(each) for each in value[:200]]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return {_word(str(key)): _words(each) for key, each in value.items()} if isinstance(value, dict) else value


def _word(text: str) -> str:
    return _HIDDEN_NAMES.sub("", sanitize(text[:_MAX_NESTED_CHARS])).replace("\n", " ")


_MAX_LISTED = 200


def listing(resources: Sequence[Resource]) -> str:
    """Return resources as the model reads them."""
    lines = [f"{each.uri}{'  (a template)' if each.is_template else ''}  {each.title}".rstrip() for each in resources]
    rest = [f"(and {len(lines) - _MAX_LISTED} more)"] if len(lines) > _MAX_LISTED else []
    return "\n".join([*lines[:_MAX_LISTED], *rest]) or "(the server lists no resources)"


def argument_hint(prompt: McpPrompt) -> str:
    """Return how a prompt's arguments are typed: `<required> [optional]`."""
    return " ".join(f"<{name}>" if is_required else f"[{name}]" for name, is_required in prompt.arguments)


def typed_arguments(prompt: McpPrompt, words: str) -> Mapping[str, str]:
    """Return the arguments that were typed, by position or as `name=value`; more words than places join the last one.

    Raises:
        McpError: a required one is missing, or the prompt takes none.
    """
    names = [name for name, _ in prompt.arguments]
    usage = f"Type: /{prompt.name} {argument_hint(prompt)}".rstrip()
    found: dict[str, str] = {}
    last = ""
    for word in split_arguments(words):
        name, sign, value = word.partition("=")
        if sign and name in names:
            found[name] = value
            continue
        free = next((each for each in names if each not in found), "")
        if free:
            found[free], last = word, free
        elif last:
            found[last] += f" {word}"
        else:
            raise McpError(f"/{prompt.name} has no place for {sanitize_path(word)[:40]!r}", usage)
    missing = [name for name, is_required in prompt.arguments if is_required and not found.get(name)]
    if missing:
        raise McpError(f"/{prompt.name} needs {', '.join(missing)}", usage)
    return found


_MOST_LINES_OF_ONE = 30
_MOST_LINES = 400
_CHANGE_NAME_CHARS = 80
_VALUE_CHARS = 200
_HIDDEN = "  something that the model is not told: hidden signs, or what lies beyond the length that is told"


def changes_of(accepted: Sequence[RawTool], offered: Sequence[RawTool]) -> tuple[ToolChange, ...]:
    """Return what was added, removed and changed, in this order, each by name; once there are too many lines, only names."""
    before, after = _by_name(accepted), _by_name(offered)
    kinds = {"added": after.keys() - before.keys(), "removed": before.keys() - after.keys()}
    kinds["changed"] = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    found: list[ToolChange] = []
    for kind, key in ((kind, key) for kind, keys in kinds.items() for key in sorted(keys)):
        lines = [*_differing(_flat(before.get(key)), _flat(after.get(key)))] or [_HIDDEN] * (kind == "changed")
        more = [f"  and {len(lines) - _MOST_LINES_OF_ONE} more lines"] if len(lines) > _MOST_LINES_OF_ONE else []
        has_room = sum(len(change.lines) for change in found) < _MOST_LINES
        shown = (*lines[:_MOST_LINES_OF_ONE], *more) if has_room else ()
        found.append(ToolChange(kind, sanitize_line(key[0])[:_CHANGE_NAME_CHARS], shown))
    return tuple(found)


def _by_name(tools: Sequence[RawTool]) -> dict[tuple[str, int], RawTool]:
    """Return tools by name; of several with one name each has a number."""
    numbers: defaultdict[str, count[int]] = defaultdict(count)
    return {(tool.name, next(numbers[tool.name])): tool for tool in tools}


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for path in dict.fromkeys((*before, *after)):
        for sign, side in (("-", before), ("+", after)):
            if path in side and before.get(path) != after.get(path):
                yield f"{sign} {path and f'{path}: '}{side[path]}"


def _flat(tool: RawTool | None) -> dict[str, str]:
    """Return a description, and a schema as paths with values, in their order: `path.type` with `"string"`."""
    if tool is None:
        return {}
    words = harmless(tool.description, _MAX_DESCRIPTION_CHARS)
    told = {name: part for name, part in told_schema(tool.schema).items() if name != "type"}
    return ({"": words} if words else {}) | dict(_leaves("", told))


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            inner = path if name == "properties" and isinstance(part, Mapping) else f"{path}.{name}" if path else str(name)
            yield from _leaves(inner, part)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for number, part in enumerate(value, 1):
            yield from _leaves(f"{path}.{number}", part)
    elif path:
        yield path[-_VALUE_CHARS:], json.dumps(value, ensure_ascii=False)[:_VALUE_CHARS]
