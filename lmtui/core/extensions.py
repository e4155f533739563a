"""What people bring with them, as front ends see it.  Nothing here does I/O."""

from __future__ import annotations

from typing import Protocol

from lmtui.core.mcp import McpServers
from lmtui.core.prompt_files import PromptFiles
from lmtui.core.skills import Skills


class Extensions(Protocol):
    """What a workspace and its user bring to every session."""

    @property
    def mcp(self) -> McpServers:
        """Return the MCP servers."""

    @property
    def skills(self) -> Skills:
        """Return the skills and the promoted tools."""

    @property
    def prompts(self) -> PromptFiles:
        """Return the slash commands that are Markdown files or prompts of MCP servers."""
