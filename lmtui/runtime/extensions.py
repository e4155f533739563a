"""What people bring with them, put together with the sessions of a workspace: MCP servers.

Nothing starts before the first session is opened, and nothing here waits for a server, but for the one case that it says.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from lmtui.core.mcp import McpServers
from lmtui.core.ports import TokenCounter, Toolbox
from lmtui.core.serving import Launcher
from lmtui.core.trust import Trust
from lmtui.engine.session import EngineSession
from lmtui.extensions.mcp_room import McpRoom
from lmtui.extensions.mcp_toolbox import McpToolbox
from lmtui.extensions.mcp_trust import ServersTrust
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ToolRegistry

_FIRST_MEETING_S = 10.0


class Extensions:
    """What a workspace and its user bring to every session.

    Args:
        workspace: the folder that is worked in.
        sandbox: returns its sandbox.
        count_tokens: prices what the model is told.
        is_attended: somebody is there; else a session waits for servers that were never met before.
        is_on: servers are started.
    """

    def __init__(
        self,
        workspace: Path,
        sandbox: Callable[[], Awaitable[WorkspaceSandbox]],
        count_tokens: TokenCounter,
        *,
        is_attended: bool,
        is_on: bool = True,
    ) -> None:
        async def launcher() -> Launcher | None:
            return (await sandbox()).launcher

        self._room = McpRoom(workspace, launcher, os.environ, count_tokens)
        self.trust: Trust = ServersTrust(workspace, self._room.look_again)
        self._is_attended, self._is_on = is_attended, is_on
        self._toolboxes: dict[str, McpToolbox] = {}

    @property
    def mcp(self) -> McpServers:
        """Return the MCP servers."""
        return self._room

    async def prepare(self) -> None:
        """Start the servers, and wait for what a session cannot begin without.

        A server that ran before is told of from memory and waited for when it is called.  One that is met for the first time
        has no tools to tell of yet: where nobody is there to see it come, the session waits for it a while.
        """
        if not self._is_on:
            return
        await self._room.loaded()
        if not self._is_attended and self._room.is_unknown():
            await self._room.settle(_FIRST_MEETING_S)

    def toolbox(self, session_id: str, own: ToolRegistry) -> Toolbox:
        """Return the tools of a session: its own and those of servers."""
        self._toolboxes[session_id] = McpToolbox(own, self._room, own.has)
        return self._toolboxes[session_id]

    def follow(self, session: EngineSession) -> None:
        """Let a session's tools know how far its conversation is."""
        toolbox = self._toolboxes.get(session.id)
        if toolbox is not None:
            toolbox.begin_with(session.history())
            _ = session.subscribe(toolbox.follow)

    async def close(self) -> None:
        """End every server."""
        await self._room.close()
