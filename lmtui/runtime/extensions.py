"""What people bring with them, put together with the sessions of a workspace: MCP servers, skills and sub-agents.

Nothing starts before the first session is opened, and nothing here waits for a server, but for the one case that it says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from lmtui.core.children import ChildKind
from lmtui.core.guidance import Guide
from lmtui.core.mcp import McpServers
from lmtui.core.ports import TokenCounter, Toolbox
from lmtui.core.prompt_files import PromptFiles
from lmtui.core.serving import GuardedLauncher
from lmtui.core.trust import Trust
from lmtui.engine.session import EngineSession
from lmtui.extensions.agents import AgentToolbox
from lmtui.extensions.hooks import hooks_trust
from lmtui.extensions.mcp_prompts import AllPrompts
from lmtui.extensions.mcp_room import McpRoom
from lmtui.extensions.mcp_toolbox import McpToolbox
from lmtui.extensions.mcp_trust import ServersTrust
from lmtui.extensions.prompt_files import MarkdownPrompts, commands_trust
from lmtui.extensions.skills_toolbox import SkillToolbox
from lmtui.extensions.skills_trust import SkillsTrust
from lmtui.runtime.guidance import guide_of
from lmtui.runtime.server_notes import ServerNotes
from lmtui.runtime.skills import agents_of, shelf_of
from lmtui.runtime.trusts import Together
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
        has_agents: the model may send sub-agents.
    """

    def __init__(
        self,
        workspace: Path,
        sandbox: Callable[[], Awaitable[WorkspaceSandbox]],
        count_tokens: TokenCounter,
        *,
        is_attended: bool,
        is_on: bool = True,
        has_agents: bool = True,
        instructions: str = "",
    ) -> None:
        async def launcher() -> GuardedLauncher | None:
            return (await sandbox()).launcher

        self._room = McpRoom(workspace, launcher, os.environ, count_tokens)
        self.agents = agents_of(workspace, count_tokens)
        servers = ServersTrust(workspace, self._room.look_again)
        self.trust: Trust = Together(
            servers, hooks_trust(workspace), commands_trust(workspace), SkillsTrust(workspace), self.agents.trust
        )
        self.prompts: PromptFiles = AllPrompts(MarkdownPrompts(workspace, ToolRegistry().canonical), self._room, is_on=is_on)
        self.skills = shelf_of(workspace, count_tokens)
        self.guide: Guide = guide_of(workspace, count_tokens, self.skills, instructions, self.agents if has_agents else None)
        self._is_attended, self._is_on = is_attended, is_on
        self._toolboxes: dict[str, tuple[McpToolbox, SkillToolbox]] = {}

    @property
    def mcp(self) -> McpServers:
        """Return the MCP servers."""
        return self._room

    def secrets(self) -> tuple[str, ...]:
        """Return the values in entries of servers that look like secrets, as far as the files are read."""
        return self._room.secrets()

    async def prepare(self) -> None:
        """Start the servers, and wait for what a session cannot begin without.

        A server that ran before is told of from memory and waited for when it is called.  One that is met for the first time
        has no tools to tell of yet: where nobody is there to see it come, the session waits for it a while.
        """
        _ = await asyncio.to_thread(self.skills.promoted)
        if not self._is_on:
            return
        await self._room.loaded()
        if not self._is_attended and self._room.is_unknown():
            await self._room.settle(_FIRST_MEETING_S)

    def toolbox(self, session_id: str, own: ToolRegistry) -> Toolbox:
        """Return the tools of a session: its own, those of skills, those of servers."""
        skills = SkillToolbox(AgentToolbox(own, self.agents), self.skills.tools)
        self._toolboxes[session_id] = McpToolbox(skills, self._room, own.has), skills
        return self._toolboxes[session_id][0]

    def for_child(self, own: ToolRegistry, kind: ChildKind) -> Toolbox:
        """Return the tools of a sub-agent: one that works has those of servers too, one that explores changes nothing."""
        return own if kind is ChildKind.EXPLORE else McpToolbox(own, self._room, own.has, is_begun=True)

    def follow(self, session: EngineSession) -> None:
        """Let a session's tools know how far its conversation is."""
        servers, skills = self._toolboxes.pop(session.id, (None, None))
        if servers is not None and skills is not None:
            servers.begin_with(session.history())
            _ = session.subscribe(servers.follow)
            _ = session.subscribe(skills.follow)
        if not self._is_attended:
            ServerNotes(self._room, session).follow()

    async def close(self) -> None:
        """End every server."""
        await self._room.close()
