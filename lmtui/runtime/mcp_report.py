"""The MCP servers of a workspace, started to see what they have, and ended again: for who only asks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.config import Config
from lmtui.core.mcp import McpServer
from lmtui.core.serving import GuardedLauncher
from lmtui.extensions.mcp_config import config_files
from lmtui.extensions.mcp_room import McpRoom
from lmtui.providers.tokens import count_tokens
from lmtui.runtime.sandboxes import open_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox


@dataclass(frozen=True, slots=True)
class ServersSeen:
    """What was seen: the servers as they were after a while, what of the files cannot be read, and which files there may be."""

    servers: Sequence[McpServer]
    problems: Sequence[str]
    files: Sequence[Path]


async def look_at_servers(workspace: Path, config: Config, limit_s: float) -> ServersSeen:
    """Start the servers that may start, wait at most so long, and end them."""
    opened: list[WorkspaceSandbox] = []

    async def launcher() -> GuardedLauncher | None:
        if not opened:
            opened.append(await open_sandbox(workspace, config))
        return opened[0].launcher

    room = McpRoom(workspace, launcher, os.environ, count_tokens)
    try:
        await room.settle(limit_s)
        return ServersSeen(tuple(room.servers()), tuple(room.problems()), [path for path, _ in config_files(workspace)])
    finally:
        await room.close()
        for sandbox in opened:
            await sandbox.close()
