"""The MCP servers of a workspace: for its sessions, and for who only asks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from lmtui.command_line import FAILURE, NONE, OK, TRUST_HINT, WARNING, CheckRow
from lmtui.core.errors import UsageError
from lmtui.core.events import Envelope, Level, Notice, TurnStarted
from lmtui.core.offers import Offers
from lmtui.core.programs import GuardedLauncher
from lmtui.core.prompt_text import PromptFiles
from lmtui.core.sanitize import sanitize_line
from lmtui.core.subagents import ChildKind
from lmtui.core.tool_servers import ToolServers
from lmtui.engine.session import EngineSession
from lmtui.features.mcp.mcp_config import read_servers
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.server_trust import Memory, servers_consent
from lmtui.features.mcp.toolbox import AllPrompts, McpTools
from lmtui.features.mcp.values import WAIT_S, McpServers, ServerState, changes_text, state_words
from lmtui.features.service import FeatureHost, Workspace, WorkspaceFeature
from lmtui.sandbox.host_paths import check_workspace
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools

BROKEN = (ServerState.FAILED, ServerState.ENDED, ServerState.STARTING)
_FIRST_MEETING_S = 10.0
_MARKS = {ServerState.READY: OK, ServerState.OFF: NONE, ServerState.REFUSED: NONE}
_ENTRY = "docs/mcp.md lists the keys of an entry; `lmtui mcp list` names its tools."
_TOLD = {
    ServerState.FAILED: "MCP server {name} does not run: {problem}  {hint}",
    ServerState.CHANGED: "MCP server {name} offers other tools than you accepted ({changes}): held back until you take them. "
    "`lmtui mcp list` shows what differs, y in /mcp takes them.",
    ServerState.WAITING: "MCP server {name} waits for your yes: `lmtui config trust`.",
    ServerState.LOGIN: "MCP server {name} waits for your login: `lmtui mcp login {name}`.",
}


def note_troubles(servers: McpServers, session: EngineSession) -> None:
    """Say once of each server why a session has to do without it, from the first turn on: before that nobody reads it."""
    told: dict[str, ServerState] = {}

    def look() -> None:
        for server in servers.servers():
            if told.get(server.name) is server.state or session.is_closed:
                continue
            told[server.name] = server.state
            if words := _TOLD.get(server.state):
                said = {key: sanitize_line(getattr(server, key)) for key in ("name", "problem", "hint")}
                text = words.format(**said, changes=changes_text(server.changes))
                session.emit(Notice(level=Level.WARNING, text=text.strip()))

    def begin(_: Envelope) -> None:
        leave()
        session.when_closed.append(servers.listen(look))
        asyncio.get_running_loop().call_soon(look)

    leave = session.subscribe(begin, TurnStarted)


def _room_of(workspace: Workspace) -> McpRoom:
    async def launcher() -> GuardedLauncher | None:
        return (await workspace.sandbox()).launcher

    return McpRoom(workspace.workspace, launcher, os.environ, workspace.count_tokens)


class McpService(WorkspaceFeature):
    """Gives sessions the tools and prompts of servers.

    Nothing starts before the first session is opened, and nothing here waits for a server, but for the one case that it says.
    """

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._room = _room_of(host)
        extensions.add(McpServers, self._room)
        extensions.add(ToolServers, self._room)
        self._is_on = host.config.mcp == "on"
        extensions.add(PromptFiles, AllPrompts(extensions.get(PromptFiles), self._room, is_on=self._is_on))
        answered = self._room.look_again
        self.trust = [servers_consent(host.workspace, is_own=is_own, answered=answered) for is_own in (False, True)]

    async def prepare(self) -> None:
        """Start the servers, and wait for what a session cannot begin without.

        A server that ran before is told about from memory and waited for when it is called.  One that is met for the first
        time has no tools to tell of yet: where nobody is there to see it come, the session waits for it a while.
        """
        if not self._is_on:
            return
        await self._room.loaded()
        if not self.host.is_attended and self._room.is_unknown():
            await self._room.settle(_FIRST_MEETING_S)

    def tools(self, own: ToolRegistry, kind: ChildKind | None = None) -> Sequence[BroughtTools]:
        """Return the tools of servers; a sub-agent that explores gets none, as it changes nothing."""
        found = McpTools(self._room, own.has)
        return () if kind is ChildKind.EXPLORE else [BroughtTools(found.offer, found.prepare, sources=(self._room.started,))]

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Say why a session has no server, where nobody is there to see it."""
        del is_ours
        if not self.host.is_attended:
            note_troubles(self._room, session)

    def secrets(self) -> Sequence[str]:
        """Return the values in entries of servers that look like secrets, as far as the files are read."""
        return self._room.secrets()

    async def close(self) -> None:
        """End every server."""
        await self._room.close()

    def problems(self) -> Sequence[str]:
        """Return what of the files cannot be read."""
        return read_servers(self.host.workspace).problems

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Start each server and see its tools, or tell only what the files name."""
        if is_offline:
            return _named_rows(self.host.workspace)
        try:
            check_workspace(self.host.workspace)
        except UsageError:
            return ()  # none can be tried in a folder that cannot be a workspace
        async with started_servers(self.host) as room:
            servers, problems = room.servers(), room.problems()
        rows = [CheckRow("mcp", FAILURE, sanitize_line(problem)) for problem in problems]
        for server in servers:
            state = FAILURE if server.state in BROKEN else _MARKS.get(server.state, WARNING)
            hint = TRUST_HINT if server.state is ServerState.WAITING else server.hint if state == FAILURE else ""
            rows += _rows(server.name, state, state_words(server, is_waited_for=True), hint, server.warnings)
        return rows


def _named_rows(workspace: Path) -> list[CheckRow]:
    """Tell what the files name; nothing is started.  Blocks (small files)."""
    files = read_servers(workspace)
    rows = [CheckRow("mcp", FAILURE, sanitize_line(problem)) for problem in files.problems]
    for memory in (Memory(workspace, entry) for entry in files.entries):
        entry = memory.entry
        rests = memory.resting_state
        state, hint = (WARNING, TRUST_HINT) if rests is ServerState.WAITING else (NONE, "")
        text = f"{rests or 'configured'}, not started (--offline): {entry.words}"
        rows += _rows(entry.name, state, text, hint, entry.warnings)
    return rows


def _rows(name: str, state: str, text: str, hint: str, warnings: Sequence[str]) -> list[CheckRow]:
    """Return the row of a server, and one of each warning."""
    found = [(state, text, hint), *((WARNING, sanitize_line(each), _ENTRY) for each in warnings)]
    return [CheckRow("mcp", level, f"{sanitize_line(name)}: {words}", way_out) for level, words, way_out in found]


@contextlib.asynccontextmanager
async def started_servers(workspace: Workspace) -> AsyncIterator[McpRoom]:
    """Start the servers that may start, wait until they are ready or are not going to be, and end them."""
    room = _room_of(workspace)
    try:
        await room.settle(WAIT_S)
        yield room
    finally:
        await room.close()
