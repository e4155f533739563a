"""What is told of each server and its tools, with the price in tokens: worked out once for each list."""

from __future__ import annotations

import json
from dataclasses import replace

from lmtui.core.counting import counted
from lmtui.core.mcp import McpServer, McpTool, ServerState
from lmtui.core.ports import TokenCounter
from lmtui.extensions.mcp_advice import advice
from lmtui.extensions.mcp_names import RawTool, told_name, told_tools
from lmtui.extensions.mcp_server import RunningServer


class ToldTools:
    """The tools of several servers, under names that no two of them share.

    Args:
        count_tokens: prices what is told of a tool.
    """

    def __init__(self, count_tokens: TokenCounter) -> None:
        self._count = count_tokens
        self._known: dict[str, tuple[tuple[RawTool, ...], bool, tuple[McpTool, ...]]] = {}

    def of(self, server: RunningServer) -> tuple[McpTool, ...]:
        """Return a server's tools as told."""
        name = server.entry.name
        reads = server.has_resources
        kept = self._known.get(name)
        if kept is None or kept[0] != server.tools or kept[1] != reads:
            taken = {tool.name for other, (*_, told) in self._known.items() if other != name for tool in told}
            found = told_tools(name, server.tools, taken)
            found += (_reader(name, {tool.name for tool in found}),) if reads else ()
            kept = self._known[name] = (server.tools, reads, tuple(replace(tool, tokens=self._price(tool)) for tool in found))
        return kept[2]

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
            entry.reach_words,
            _brings(server),
        )

    def _price(self, tool: McpTool) -> int:
        return self._count(json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters}))


def _reader(server: str, taken: set[str]) -> McpTool:
    """Return lmtui's own tool that reads a server's resources."""
    text = "Read a resource of this server by its uri; without one, list them."
    parameters: dict[str, object] = {"type": "object", "properties": {"uri": {"type": "string"}}}
    return McpTool(told_name(server, "read_resource", taken), server, "read_resource", text, parameters, reads=True)


def _brings(server: RunningServer) -> str:
    counts = ((len(server.prompts), "prompt"), (len(server.resources), "resource"))
    return ", ".join(counted(count, thing) for count, thing in counts if count)
