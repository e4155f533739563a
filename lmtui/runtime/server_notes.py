"""What becomes of MCP servers, told in the session where no screen shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lmtui.core.clean import clean_line
from lmtui.core.events import Envelope, Level, Notice, TurnStarted
from lmtui.core.mcp import McpServers, ServerState, changes_text
from lmtui.engine.session import EngineSession

_TOLD = {
    ServerState.FAILED: "MCP server {name} does not run: {problem}  {hint}",
    ServerState.CHANGED: "MCP server {name} offers other tools than you accepted ({changes}): held back until you take them. "
    "`lmtui mcp list` shows what differs, y in /mcp takes them.",
    ServerState.WAITING: "MCP server {name} waits for your yes: `lmtui config trust`.",
    ServerState.LOGIN: "MCP server {name} waits for your login: `lmtui mcp login {name}`.",
}


class ServerNotes:
    """Says once of each server why a session has to do without it.

    Args:
        servers: the servers of the workspace.
        session: where it is said.
    """

    def __init__(self, servers: McpServers, session: EngineSession) -> None:
        self._servers = servers
        self._session = session
        self._told: dict[str, ServerState] = {}

    def follow(self) -> None:
        """Say it from the first turn on: before that nobody reads what is said."""
        leave: list[Callable[[], None]] = []

        def begin(envelope: Envelope) -> None:
            if isinstance(envelope.event, TurnStarted):
                leave.pop()()
                self._session.when_closed.append(self._servers.listen(self._look))
                _ = asyncio.get_running_loop().call_soon(self._look)

        leave.append(self._session.subscribe(begin))

    def _look(self) -> None:
        for server in self._servers.servers():
            if self._told.get(server.name) is server.state or self._session.is_closed:
                continue
            self._told[server.name] = server.state
            if words := _TOLD.get(server.state):
                text = words.format(
                    name=clean_line(server.name),
                    problem=clean_line(server.problem),
                    hint=clean_line(server.hint),
                    changes=changes_text(server.changes),
                )
                self._session.emit(Notice(level=Level.WARNING, text=text.strip()))
