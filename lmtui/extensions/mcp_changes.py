"""What differs between the tools of a server that the user accepted and those that it has now, for a person to read.

Compared is what a model is told of them, so all of it has passed the cleaning; what differs beside that is said in words.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lmtui.core.clean import clean_line
from lmtui.core.mcp import ToolChange
from lmtui.extensions.mcp_names import RawTool, harmless, told_schema

_MOST_LINES_OF_ONE = 30
_MOST_LINES = 400
_NAME_CHARS = 80
_WORD_CHARS = 600
_VALUE_CHARS = 200
_HIDDEN = "  something that the model is not told: hidden signs, or what lies beyond the length that is told"


def changes_of(accepted: Sequence[RawTool], offered: Sequence[RawTool]) -> tuple[ToolChange, ...]:
    """Return what was added, removed and changed, in this order, each by name."""
    before, after = _by_name(accepted), _by_name(offered)
    found = [ToolChange("added", _name(key), _said("+ ", after[key])) for key in sorted(after.keys() - before.keys())]
    found += [ToolChange("removed", _name(key), _said("- ", before[key])) for key in sorted(before.keys() - after.keys())]
    for key in sorted(before.keys() & after.keys()):
        if before[key] != after[key]:
            found.append(ToolChange("changed", _name(key), _bounded(list(_differing(before[key], after[key])))))
    return tuple(_within_limits(found))


def _by_name(tools: Sequence[RawTool]) -> dict[tuple[str, int], RawTool]:
    """Return tools by name; of several with one name each has a number."""
    seen: Counter[str] = Counter()
    found: dict[tuple[str, int], RawTool] = {}
    for tool in tools:
        found[tool.name, seen[tool.name]] = tool
        seen[tool.name] += 1
    return found


def _name(key: tuple[str, int]) -> str:
    return clean_line(key[0])[:_NAME_CHARS]


def _said(sign: str, tool: RawTool) -> tuple[str, ...]:
    words = harmless(tool.description, _WORD_CHARS)
    schema = [f"{sign}{path}: {value}" for path, value in _flat(tool).items()]
    return _bounded([f"{sign}{words}", *schema] if words else schema)


def _differing(before: RawTool, after: RawTool) -> Iterator[str]:
    old, new = harmless(before.description, _WORD_CHARS), harmless(after.description, _WORD_CHARS)
    if old != new:
        yield f"- {old or '(no description)'}"
        yield f"+ {new or '(no description)'}"
    was, now = _flat(before), _flat(after)
    for path in dict.fromkeys((*was, *now)):
        if was.get(path) != now.get(path):
            if path in was:
                yield f"- {path}: {was[path]}"
            if path in now:
                yield f"+ {path}: {now[path]}"
    if old == new and was == now:
        yield _HIDDEN


def _flat(tool: RawTool) -> dict[str, str]:
    """Return a schema as paths with values, in their order: `path.type` with `"string"`."""
    told = {name: part for name, part in told_schema(tool.schema).items() if name != "type"}
    return dict(_leaves("", told))


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


def _bounded(lines: list[str], most: int = _MOST_LINES_OF_ONE) -> tuple[str, ...]:
    left = len(lines) - most
    return tuple(lines) if left <= 0 else (*lines[:most], f"  and {left} more lines")


def _within_limits(changes: Sequence[ToolChange]) -> Iterator[ToolChange]:
    """Yield every change; once there are too many lines, only the names."""
    room = _MOST_LINES
    for change in changes:
        yield change if room > 0 else ToolChange(change.kind, change.name)
        room -= len(change.lines)
