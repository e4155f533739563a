"""Calls to servers' tools as the engine sees them: checked, asked about like commands, never loosened by what a server says."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmtui.core.clean import clean_line
from lmtui.core.errors import McpError, ToolError
from lmtui.core.mcp import McpTool
from lmtui.core.permissions import Access
from lmtui.core.ports import OutputSink, Preview, ToolContext, ToolResult

_CHECKER = "lmtui.extensions.mcp_schema"
_TITLE_CHARS = 80

Perform = Callable[[McpTool, Mapping[str, object], OutputSink], Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call of one tool; implements `core.ports.PreparedCall`.

    `schema` is the server's own, `place` what is around the server, `perform` does it.
    """

    spec: McpTool
    arguments: Mapping[str, object]
    schema: Mapping[str, Any]
    place: str
    perform: Perform

    @property
    def tool(self) -> str:
        """Return the name by which the model calls it, and rules name it."""
        return self.spec.name

    @property
    def title(self) -> str:
        """Return the arguments in a few words."""
        words = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return clean_line(words)[:_TITLE_CHARS]

    @property
    def access(self) -> Access:
        """Return that it may do anything: what a server says of its tools is not believed."""
        return Access.EXECUTE

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return the server and the server's own name for the tool."""
        return (f"{self.spec.server}/{self.spec.own_name}",)

    async def preview(self, context: ToolContext) -> Preview:
        """Return the whole call."""
        del context  # the workspace has nothing to do with it
        await self._check()
        told = json.dumps(self.arguments, indent=1, ensure_ascii=False)
        limits = f"server {self.spec.server}" + (f", {self.place}" if self.place else "")
        return Preview(f"{self.spec.name}\n{told}", limits=clean_line(limits))

    async def run(self, context: ToolContext) -> ToolResult:
        """Ask the server."""
        await self._check()
        try:
            return await self.perform(self.spec, self.arguments, context.on_output)
        except McpError as error:
            raise ToolError(str(error), error.hint) from error

    async def _check(self) -> None:
        checker = await asyncio.to_thread(importlib.import_module, _CHECKER)
        found: tuple[str, ...] = await asyncio.to_thread(checker.problems, self.schema, self.arguments)
        if found:
            told = json.dumps(self.spec.parameters, ensure_ascii=False)
            raise ToolError(f"the arguments of {self.spec.name} do not fit: {'; '.join(found)}. Its schema: {told[:2000]}")


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A search among the tools of servers; it changes nothing.  Implements `core.ports.PreparedCall`."""

    tool: str
    query: str
    answer: Callable[[str], Awaitable[str]]

    @property
    def arguments(self) -> Mapping[str, object]:
        """Return the words."""
        return {"query": self.query}

    @property
    def title(self) -> str:
        """Return the words."""
        return clean_line(self.query)[:_TITLE_CHARS]

    @property
    def access(self) -> Access:
        """Return that it does nothing."""
        return Access.NONE

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return nothing: no rule is about it."""
        return ()

    async def preview(self, context: ToolContext) -> Preview:
        """Return the words."""
        del context  # nobody is asked about a search
        return Preview(self.query)

    async def run(self, context: ToolContext) -> ToolResult:
        """Search."""
        del context  # it touches nothing
        text = await self.answer(self.query)
        return ToolResult(text, "tools of servers")


def fitted(arguments: Mapping[str, object], schema: Mapping[str, Any]) -> dict[str, object]:
    """Return arguments with texts turned into what the schema wants there, as small models write numbers in quotes."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(arguments)
    return {name: _fitted(value, properties.get(name)) for name, value in arguments.items()}


def _fitted(value: object, wanted: object) -> object:
    if not isinstance(value, str) or not isinstance(wanted, Mapping):
        return value
    kind = wanted.get("type")
    if kind in ("integer", "number", "boolean", "array", "object"):
        try:
            found: object = json.loads(value.lower() if kind == "boolean" else value)
        except ValueError:
            return value
        fits: dict[str, tuple[type, ...]] = {
            "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,),
        }  # fmt: skip
        is_right = isinstance(found, fits[kind]) and (kind == "boolean") == isinstance(found, bool)
        return found if is_right else value
    return value
