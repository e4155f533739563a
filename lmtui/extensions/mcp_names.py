"""What servers call their tools and say of them, made fit for a model and a screen: it is hostile until it has passed here."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmtui.core.clean import clean
from lmtui.core.mcp import PREFIX, McpTool

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
_MARKUP = re.compile(r"<\|[^|>]{0,40}\|>|</?[A-Za-z_][\w.:-]{0,40}[^<>]{0,80}>|\[/?[A-Z_]{2,20}\]|<<[^<>]{0,20}>>|```+|~~~+")
_KEPT_WORDS = frozenset({
    "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "description",
    "additionalProperties", "default", "prefixItems", "$ref", "$defs", "definitions", "format", "pattern",
})  # fmt: skip
_MAPS = frozenset({"properties", "$defs", "definitions"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool as its server lists it."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)


def tools_digest(tools: Sequence[RawTool]) -> str:
    """Return the hash of a list of tools, whatever their order: all that a model is told of them."""
    told = sorted((tool.name, tool.description, json.dumps(tool.schema, sort_keys=True, default=str)) for tool in tools)
    return hashlib.sha256(json.dumps(told).encode("utf-8", "surrogatepass")).hexdigest()


def told_tools(server: str, tools: Iterable[RawTool], taken: set[str]) -> tuple[McpTool, ...]:
    """Return a server's tools as the model is told of them, sorted by name; `taken` are names that others have."""
    found: list[McpTool] = []
    for tool in sorted(tools, key=lambda tool: tool.name)[:MAX_TOOLS]:
        name = told_name(server, tool.name, taken)
        taken.add(name)
        schema = told_schema(tool.schema)
        found.append(McpTool(name, server, tool.name, harmless(tool.description, _MAX_DESCRIPTION_CHARS), schema))
    return tuple(found)


def told_name(server: str, tool: str, taken: Iterable[str] = ()) -> str:
    """Return `mcp__server__tool` in letters, digits, `_` and `-`, at most 64 of them; a short hash makes it the only one."""
    head = f"{PREFIX}{server_key(server)}__"
    wanted = head + plain(tool)
    if len(wanted) <= MAX_NAME_CHARS and wanted not in taken:
        return wanted
    mark = _mark(f"{server}\0{tool}")
    return f"{head}{plain(tool)[: MAX_NAME_CHARS - len(head) - 7]}_{mark}"


def server_key(server: str) -> str:
    """Return what stands for a server in the names of its tools: its name, or what no other server has, so that rules hold."""
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
    text = _HIDDEN_NAMES.sub("", clean(text[: most * 4]))
    text = _MARKUP.sub(" ", text)
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def told_schema(schema: Mapping[str, Any]) -> dict[str, object]:
    """Return a JSON Schema with its words cleaned and without what no model needs; a large one tells its top level alone."""
    slim = _slim(schema, 0)
    slim.setdefault("properties", {})
    if len(json.dumps(slim)) > _MAX_SCHEMA_CHARS:
        properties = slim["properties"] if isinstance(slim["properties"], dict) else {}
        top = {name: {"type": value.get("type", "object")} for name, value in properties.items() if isinstance(value, dict)}
        slim = {"type": "object", "properties": dict(list(top.items())[:100]), "required": slim.get("required", [])}
    return {"type": "object", **{key: value for key, value in slim.items() if key != "type"}}


def _slim(value: Mapping[str, Any], depth: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, each in value.items():
        if key not in _KEPT_WORDS or depth > _MAX_DEPTH:
            continue
        if key == "description":
            if isinstance(each, str) and each:
                found[key] = harmless(each, _MAX_NESTED_CHARS)
        elif key in _MAPS and isinstance(each, dict):
            found[key] = {_word(name): _part(part, depth) for name, part in each.items()}
        elif key in _LISTS and isinstance(each, list):
            found[key] = [_part(part, depth) for part in each]
        elif key in ("items", "additionalProperties") and isinstance(each, dict):
            found[key] = _part(each, depth)
        else:
            found[key] = _words(each)
    return found


def _part(part: object, depth: int) -> object:
    return _slim(part, depth + 1) if isinstance(part, dict) else part if isinstance(part, bool) else {}


def _words(value: object) -> object:
    """Return a value whose texts are on one line and free of hidden characters; they are data, so nothing else is taken out."""
    if isinstance(value, str):
        return _word(value)
    if isinstance(value, list):
        return [_words(each) for each in value[:200]]
    return {_word(str(key)): _words(each) for key, each in value.items()} if isinstance(value, dict) else value


def _word(text: str) -> str:
    return _HIDDEN_NAMES.sub("", clean(text[:_MAX_NESTED_CHARS])).replace("\n", " ")
