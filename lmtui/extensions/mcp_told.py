"""What is told of each server and its tools, with the price in tokens: worked out once for each list."""

from __future__ import annotations

import json
from dataclasses import replace

from lmtui.core.mcp import McpServer, McpTool, ServerState
from lmtui.core.ports import TokenCounter
from lmtui.extensions.mcp_advice import advice
from lmtui.extensions.mcp_names import RawTool, told_tools
from lmtui.extensions.mcp_server import RunningServer


class ToldTools:
    """The tools of several servers, under names that no two of them share.

    Args:
        count_tokens: prices what is told of a tool.
    """

    def __init__(self, count_tokens: TokenCounter) -> None:
        self._count = count_tokens
        self._known: dict[str, tuple[tuple[RawTool, ...], tuple[McpTool, ...]]] = {}

    def of(self, server: RunningServer) -> tuple[McpTool, ...]:
        """Return a server's tools as told."""
        name = server.entry.name
        kept = self._known.get(name)
        if kept is None or kept[0] != server.tools:
            taken = {tool.name for other, (_, told) in self._known.items() if other != name for tool in told}
            told = tuple(replace(tool, tokens=self._price(tool)) for tool in told_tools(name, server.tools, taken))
            kept = self._known[name] = (server.tools, told)
        return kept[1]

    def shown(self, server: RunningServer) -> McpServer:
        """Return a server as front ends see it."""
        tools, entry = self.of(server), server.entry
        place = server.place or ("this machine, no sandbox" if entry.on_host else "" if entry.kind == "stdio" else "network")
        has_problem = server.state not in (ServerState.READY, ServerState.STARTING)
        hint = advice(entry, server.memory.log.tail, server.place) if server.state is ServerState.STARTING else server.hint
        return McpServer(
            entry.name,
            entry.source,
            server.state,
            entry.kind,
            place,
            entry.words,
            tools,
            sum(tool.tokens for tool in tools),
            server.problem if has_problem else "",
            hint,
            server.version,
            told_tools(entry.name, server.offered, set()),
            server.changes,
            entry.warnings,
        )

    def _price(self, tool: McpTool) -> int:
        return self._count(json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters}))
