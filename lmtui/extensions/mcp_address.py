"""Where a server is: a program that is started in its place, or an address, with the variables of its entry put in."""

from __future__ import annotations

import asyncio
import contextlib
import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import McpError
from lmtui.core.forms import is_web_address
from lmtui.core.serving import GuardedLauncher, Launch
from lmtui.extensions.mcp_advice import on_host_hint
from lmtui.extensions.mcp_config import ServerEntry, expand
from lmtui.extensions.mcp_link import Address
from lmtui.extensions.mcp_memory import Memory
from lmtui.paths import path_inside


async def _browse(url: str) -> object:
    """Open an address in the user's browser; what is none for browsers is not opened."""
    return is_web_address(url) and await asyncio.to_thread(webbrowser.open, url)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every server of a workspace has in common.

    `launcher` returns what starts programs, `browse` opens an address in the user's browser.  `environ` is where variables in
    entries are looked up.
    """

    workspace: Path
    launcher: Callable[[], Awaitable[GuardedLauncher | None]]
    environ: Mapping[str, str]
    on_change: Callable[[], None] = lambda: None
    browse: Callable[[str], Awaitable[object]] = _browse
    monotonic: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Place:
    """An address, the workspace as the server sees it, and in words what is around a program."""

    address: Address
    root: Path
    words: str = ""


async def address_of(entry: ServerEntry, memory: Memory, around: Surroundings, parts: contextlib.AsyncExitStack) -> Place:
    """Return where a server is; a program is started, and ends with `parts`.

    Raises:
        ConfigError: a variable is not set.
        McpError: there is no sandbox for it.
        SandboxError: it does not start.
    """
    where = f"{entry.source}: server {entry.name!r}"

    def filled(text: str) -> str:
        return expand(text, around.environ, around.workspace, where)

    if entry.kind != "stdio":
        headers = {name: filled(value) for name, value in entry.headers}
        oauth = {name: filled(value) for name, value in entry.oauth}
        has_key = any(name.lower() == "authorization" for name in headers)
        tokens = None if has_key else memory.token_file
        return Place(Address(None, filled(entry.url), entry.kind, headers, tokens, oauth), around.workspace)
    launcher = await around.launcher()
    if launcher is None:
        raise McpError("there is no sandbox that it could run in", on_host_hint(entry))
    launch = Launch(
        tuple(filled(word) for word in entry.command),
        {name: filled(value) for name, value in entry.env},
        _below(filled(entry.cwd), around.workspace),
        entry.hosts,
        tuple(filled(folder) for folder in entry.toolchains),
        entry.can_write,
        entry.on_host,
        entry.memory_mb,
        shows_added=entry.is_own,
    )
    memory.log.begin(f"{around.workspace}: {entry.words}")
    process = await launcher.open(launch, memory.log.add)
    parts.push_async_callback(process.close)
    is_inside = not entry.on_host and "not isolated" not in process.place and not process.place.startswith("landlock")
    return Place(Address(process), Path(path_inside(around.workspace)) if is_inside else around.workspace, process.place)


@contextlib.asynccontextmanager
async def guarded(entry: ServerEntry, around: Surroundings) -> AsyncIterator[list[str]]:
    """Guard the workspace while a program of ours may write in it; a server elsewhere cannot."""
    launcher = await around.launcher() if entry.kind == "stdio" and entry.can_write else None
    if launcher is None:
        yield []
        return
    async with launcher.guarded() as notes:
        yield notes


def _below(folder: str, workspace: Path) -> str:
    """Return a folder relative to the workspace where it is in it; any other is left as it is."""
    path = Path(folder)
    return str(path.relative_to(workspace)) if path.is_absolute() and path.is_relative_to(workspace) else folder
