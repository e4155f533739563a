"""A call of a tool that people bring (a server's, a promoted one): its arguments are read, fitted to its schema and checked."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import fit_values
from lmtui.core.permissions.rules import Access
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.parser_process import TooComplex, parsed

_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class BroughtCall:
    """A call of one tool; implements `core.ports.PreparedCall`.

    `tool` is the name by which the model calls it, and rules name it.  `schema` is its own, `told` what the model knows of it,
    `perform` does it, `shown` is for the user next to the arguments.  `access` is anything: what a server says of its tools is
    not believed.
    """

    tool: str
    arguments: Mapping[str, object]
    schema: Mapping[str, Any]
    told: Mapping[str, object]
    perform: Callable[[Mapping[str, object], ToolContext], Awaitable[ToolResult]]
    subjects: tuple[str, ...] = ()
    shown: str = ""
    limits: str = ""
    access: Access = Access.EXECUTE

    @property
    def title(self) -> str:
        return sanitize_line(", ".join(f"{name}={value}" for name, value in self.arguments.items()))[:_TITLE_CHARS]

    async def preview(self, context: ToolContext) -> Preview:
        del context  # the workspace has nothing to do with it
        await self._check()
        given = json.dumps(self.arguments, indent=1, ensure_ascii=False)
        return Preview(f"{self.tool}\n{given}{self.shown}", limits=sanitize_line(self.limits))

    async def run(self, context: ToolContext) -> ToolResult:
        await self._check()
        return await self.perform(self.arguments, context)

    async def _check(self) -> None:
        """Look whether the arguments fit the schema.

        Raises:
            ToolError: they do not; the text says where, and what the tool takes.
        """
        try:
            found = await asyncio.to_thread(parsed, schema_problems, self.schema, self.arguments)
        except TooComplex:
            return  # as for a schema that cannot be used, the server checks alone
        if found:
            takes = json.dumps(self.told, ensure_ascii=False)[:2000]
            raise ToolError(f"invalid arguments for {self.tool}: {'; '.join(found)}. Its schema: {takes}")


def schema_problems(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what does not fit a schema; see `json_schema.problems`.  For the process of parsers."""
    found: tuple[str, ...] = importlib.import_module("lmtui.json_schema").problems(schema, arguments)  # heavy
    return found


def read_arguments(tool: str, text: str) -> dict[str, object]:
    """Return the arguments as the model wrote them.

    Raises:
        ToolError: they are not a JSON object, or nested too deep.
    """
    try:
        found = json.loads(text, strict=False) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ToolError(f"the arguments of {tool[:64]} are not JSON: {error}", "Send one JSON object.") from error
    if not isinstance(found, dict):
        raise ToolError(f"the arguments of {tool[:64]} are not a JSON object", "Send one.")
    return fit_values(tool, found)


def fitted(arguments: Mapping[str, object], schema: Mapping[str, Any]) -> dict[str, object]:
    """Return arguments with texts turned into what the schema wants there, as small models write numbers in quotes."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(arguments)
    return {name: _fitted(value, properties.get(name)) for name, value in arguments.items()}


_TYPES: dict[object, type | tuple[type, ...]] = {
    "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}  # fmt: skip


def _fitted(value: object, wanted: object) -> object:
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if not isinstance(value, str) or not isinstance(kind, str) or kind not in _TYPES:
        return value
    try:
        found = fit_values("it", {"": json.loads(value.lower() if kind == "boolean" else value)})[""]
    except (ValueError, RecursionError, ToolError):  # no JSON, or too deep: the text stays, and does not fit
        return value
    return found if isinstance(found, _TYPES[kind]) and (kind == "boolean") == isinstance(found, bool) else value
