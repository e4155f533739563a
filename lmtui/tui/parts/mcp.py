"""MCP servers in the app: their list, and a word when one of them needs the user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from lmtui.core.clean import clean_line
from lmtui.core.forms import Form
from lmtui.core.mcp import McpServers, ServerState
from lmtui.tui.form_asking import ask_form
from lmtui.tui.modals.mcp import McpList
from lmtui.tui.stage import Handler, Stage

_TOLD = {
    ServerState.FAILED: "MCP server {name} does not run: {problem}  /mcp",
    ServerState.CHANGED: "MCP server {name} offers other tools than you accepted; they are held back  /mcp",
    ServerState.LOGIN: "MCP server {name} waits for your login  /mcp",
    ServerState.WAITING: "MCP server {name} waits for your yes  /mcp",
}


class McpPart:
    """Answers the commands of servers."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._one_form = asyncio.Lock()
        self._told: dict[str, ServerState] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"mcp.show": lambda _: self._show()}

    def start(self) -> None:
        """Say from now on when a server needs the user."""
        servers = self._servers()
        if servers is not None:
            _ = servers.listen(lambda: self._tell(servers))
            servers.answer_with(self._ask)
            self._tell(servers)

    async def _ask(self, form: Form) -> Mapping[str, object] | None:
        """Put a server's questions before the user, one form at a time."""
        async with self._one_form:
            return await self._stage.app.run_worker(ask_form(self._stage.app, form), group="mcp-form").wait()

    def _servers(self) -> McpServers | None:
        host = self._stage.desk.host
        return host.extensions.mcp if host is not None else None

    def _show(self) -> None:
        servers = self._servers()
        if servers is not None:
            _ = self._stage.app.push_screen(McpList(servers))

    def _tell(self, servers: McpServers) -> None:
        """Say once of each server what became of it."""
        for server in servers.servers():
            before = self._told.get(server.name)
            self._told[server.name] = server.state
            if server.state is not before and server.state in _TOLD:
                text = _TOLD[server.state].format(name=clean_line(server.name), problem=clean_line(server.problem))
                self._stage.say(text, "warning")
