"""Calls to servers' tools as the engine sees them: checked, asked about like commands, never loosened by what a server says."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmtui.core.clean import clean_line
from lmtui.core.errors import McpError, ToolError
from lmtui.core.mcp import McpTool
from lmtui.core.permissions import Access
from lmtui.core.ports import OutputSink, Preview, ToolContext, ToolResult
from lmtui.extensions.call_arguments import check_arguments

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
        await check_arguments(self.spec.name, self.arguments, self.schema, self.spec.parameters)


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
