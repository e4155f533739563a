"""One tool in place of many: it finds tools of servers by words, and calls one.  Its price does not grow with their number."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from lmtui.core.mcp import McpServer, McpTool
from lmtui.core.messages import ToolSpec

SEARCH = "mcp_search"
_MOST_FOUND = 5
_MOST_NAMED = 12
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SUFFIXES = ("ies", "es", "s", "ing", "ed", "er")
_K1, _B = 1.4, 0.6
_NAME_WEIGHT, _SERVER_WEIGHT = 4, 2


def search_spec(servers: Sequence[McpServer]) -> ToolSpec:
    """Return what the model is told: which servers there are, and how to find and call their tools."""
    names = [server.name[:24] for server in servers]
    listed = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
    text = f"Find tools of {listed} by words; call one by its name, or here."
    properties: dict[str, object] = {
        "query": {"type": "string"},
        "call": {"type": "string"},
        "arguments": {"type": "object"},
    }
    return ToolSpec(SEARCH, text, {"type": "object", "properties": properties})


def found_text(query: str, tools: Sequence[McpTool]) -> str:
    """Return the best few tools with their schemas, as the model reads them."""
    best = search(query, tools)
    if not best:
        servers = sorted({tool.server for tool in tools})
        return f"No tool fits {query[:80]!r}. Servers: {', '.join(servers) or 'none is ready'}. Try other words."
    lines = [
        f"{tool.name}: {tool.description}\n  arguments: {json.dumps(tool.parameters, ensure_ascii=False)}" for tool in best
    ]
    return "\n".join([*lines, f"({len(tools)} tools in all; call one by its name, or with {SEARCH} call=… arguments={{…}})"])


def search(query: str, tools: Sequence[McpTool], most: int = _MOST_FOUND) -> list[McpTool]:
    """Return the tools that fit words best, by BM25 over names, descriptions and arguments; names weigh more."""
    wanted = set(_words(query))
    texts = [Counter(_terms(tool)) for tool in tools]
    if not wanted or not texts:
        return []
    lengths = [sum(text.values()) for text in texts]
    mean = sum(lengths) / len(lengths) or 1.0
    rare = {word: _rarity(sum(1 for text in texts if text[word]), len(texts)) for word in wanted}
    scores = [
        sum(rare[word] * text[word] * (_K1 + 1) / (text[word] + _K1 * (1 - _B + _B * length / mean)) for word in wanted)
        for text, length in zip(texts, lengths, strict=True)
    ]
    order = sorted(range(len(tools)), key=lambda i: (-scores[i], tools[i].name))
    return [tools[i] for i in order[:most] if scores[i] > 0]


def _rarity(count: int, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _terms(tool: McpTool) -> Iterable[str]:
    for _ in range(_NAME_WEIGHT):
        yield from _words(tool.own_name)
    for _ in range(_SERVER_WEIGHT):
        yield from _words(tool.server)
    yield from _words(tool.description)
    properties = tool.parameters.get("properties")
    if isinstance(properties, dict):
        for name, value in properties.items():
            yield from _words(name)
            yield from _words(str(value.get("description", "")) if isinstance(value, dict) else "")


def _words(text: str) -> list[str]:
    return [_stem(word.lower()) for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    """Return a word without its common endings, so that `creating tickets` finds `create_ticket`."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)] + ("y" if suffix == "ies" else "")
            break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
