"""The MCP servers of a workspace, started to see what they have, and ended again: for who only asks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.app.sandboxes import open_sandbox
from lmtui.config import Config
from lmtui.core.mcp import McpServer, ServerState
from lmtui.core.programs import GuardedLauncher
from lmtui.features.mcp.mcp_config import add_server, config_files, entry_of, read_servers, remove_server
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.server_trust import Memory, resting_state, set_choice, set_reach
from lmtui.models.tokens import count_tokens
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

__all__ = [
    "Login",
    "NamedServer",
    "ServersSeen",
    "add_server",
    "entry_of",
    "look_at_servers",
    "named_servers",
    "reach_of",
    "remove_server",
    "set_choice",
    "set_reach",
]
_LOGIN_S = 600.0


@dataclass(frozen=True, slots=True)
class Login:
    """Which server is to be logged in to, and who says yes to the address that the browser then opens."""

    name: str
    says_yes: Callable[[str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class ServersSeen:
    """What was seen: the servers as they were after a while, what of the files cannot be read, and which files there may be."""

    servers: Sequence[McpServer]
    problems: Sequence[str]
    files: Sequence[Path]


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server as the files name it: `rests` is why it would not start, `warnings` what is not read of its entry."""

    name: str
    rests: ServerState | None
    words: str
    warnings: tuple[str, ...] = ()


def named_servers(workspace: Path) -> tuple[Sequence[NamedServer], Sequence[str]]:
    """Return the servers that are named, none of them started, and what of the files cannot be read.  Blocks (small files)."""
    files = read_servers(workspace)
    known = [(memory.entry, memory.known) for memory in (Memory(workspace, entry) for entry in files.entries)]
    found = [NamedServer(entry.name, resting_state(entry, what), entry.words, entry.warnings) for entry, what in known]
    return found, files.problems


def reach_of(name: str, workspace: Path) -> dict[str, tuple[str, str]]:
    """Return where a server runs and what it reaches, each with who says so; empty for an address or a broken entry."""
    written = next((entry for entry in read_servers(workspace).entries if entry.name == name), None)
    return Memory(workspace, written).entry.reach if written is not None else {}


async def look_at_servers(workspace: Path, config: Config, limit_s: float, login: Login | None = None) -> ServersSeen:
    """Start the servers that may start, wait at most so long, and end them.

    With a `login` the server of that name is logged in to, if it waits for that and the user says yes to the address.
    """
    opened: list[WorkspaceSandbox] = []

    async def launcher() -> GuardedLauncher | None:
        if not opened:
            opened.append(await open_sandbox(workspace, config))
        return opened[0].launcher

    room = McpRoom(workspace, launcher, os.environ, count_tokens)
    try:
        await room.settle(limit_s)
        if login is not None:
            await _log_in(room, login)
        return ServersSeen(tuple(room.servers()), tuple(room.problems()), [path for path, _ in config_files(workspace)])
    finally:
        await room.close()
        for sandbox in opened:
            await sandbox.close()


async def _log_in(room: McpRoom, login: Login) -> None:
    """Let the user log in in their browser; takes as long as they do, at most ten minutes."""
    waiting = next((each for each in room.servers() if each.name == login.name and each.state is ServerState.LOGIN), None)
    if waiting is None or not await login.says_yes(waiting.problem):
        return
    room.accept(login.name)
    await room.settle(_LOGIN_S)
