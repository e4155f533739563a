"""MCP servers in the app: their list, and a word when one of them needs the user."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from lmtui.core.forms import Form
from lmtui.core.mcp import McpServers, ServerState
from lmtui.tui.form_asking import ask_form
from lmtui.tui.modals.mcp import McpList
from lmtui.tui.modals.mcp_words import needs_user, notice
from lmtui.tui.stage import Handler, Stage


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
        """Say once of each server what became of it; of all that need the user where another one does."""
        found = servers.servers()
        is_new = any(needs_user(server) and self._told.get(server.name) is not server.state for server in found)
        self._told = {server.name: server.state for server in found}
        if is_new:
            self._stage.say(notice([server for server in found if needs_user(server)]), "warning")
