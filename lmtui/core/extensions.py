"""What people bring with them, as front ends see it.  Nothing here does I/O."""

from __future__ import annotations

from typing import Protocol

from lmtui.core.mcp import McpServers


class Extensions(Protocol):
    """What a workspace and its user bring to every session."""

    @property
    def mcp(self) -> McpServers:
        """Return the MCP servers."""
