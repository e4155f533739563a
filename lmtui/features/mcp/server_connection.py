"""What the life of a server needs of a connection, and what a connection may ask of us; the SDK is behind it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shlex
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from lmtui.core.errors import McpError
from lmtui.core.programs import FETCHERS, GuardedLauncher, Launch, Served
from lmtui.core.sanitize import Redactor
from lmtui.core.tool_servers import Ask, ask_nobody, is_web_address
from lmtui.features.mcp.mcp_config import ServerEntry, expand
from lmtui.features.mcp.server_trust import Memory
from lmtui.paths import path_inside

_NO_NETWORK = (
    "eai_again", "enotfound", "enetunreach", "econnrefused", "getaddrinfo", "name resolution", "resolve host", "dns error",
    "network is unreachable", "network request", "failed to fetch", "client error (connect)", "no route to host",
    "network was disabled",
)  # fmt: skip
_GIVE = "run `lmtui mcp set {name} --network on` (or name the hosts that it needs)"


def on_host_hint(entry: ServerEntry) -> str:
    """Return how a server that no sandbox here can hold is let run all the same."""
    return f"`lmtui mcp set {shlex.quote(entry.name)} --where host` lets it run on this machine without one."


def advice(entry: ServerEntry, said: str, place: str = "") -> str:
    """Return what to try for an entry that failed and said this; empty where nothing is known.

    Args:
        entry: the server.
        said: why it failed and what it said last.
        place: what is around it, in words.
    """
    if entry.kind != "stdio" or entry.on_host or "not isolated" in place:
        return ""
    program = PurePath(entry.command[0]).name if entry.command else ""
    low, give = said.lower(), _GIVE.format(name=shlex.quote(entry.name))
    if "but the sandbox does not see" in low:
        return f"Move it to another folder. {on_host_hint(entry)}"
    is_missing = re.search(rf"the program (\S*/)?{re.escape(program.lower())} is not there", low)
    if is_missing and " " in program:
        return 'Its "command" has several words: put those after the program into "args".'
    if is_missing or "cannot be started: no such file" in low:
        return f"Its sandbox cannot run the program. {on_host_hint(entry)}"
    if "*" in entry.hosts:
        return ""
    fetches, is_missing = program in FETCHERS, re.search("no such file|not found", low)
    if not any(sign in low for sign in _NO_NETWORK) and (is_missing or not fetches):
        return ""
    has = f"It reaches only {', '.join(entry.hosts)}" if entry.hosts else "It has no network in its sandbox"
    why = f", and {program} fetches packages when it starts" if fetches else ""
    return f"{has}{why}: {give}{', or install the package' if fetches else ''}."


async def visit_nothing(url: str) -> None:
    """Go nowhere, where nobody is there."""
    raise McpError(f"it wants a login at {url}")


@dataclass(slots=True)
class ConnectionHooks:
    """What a connection tells: `on_gone` is called when the other end has ended, `on_tools_changed` for another list of tools,
    `on_offers_changed` for other prompts or resources.

    `ask` puts a form before the user; a None of it declines.  `visit` lets the user go to an address, to log in, and returns
    when their browser is on its way.  `roots` are the folders that a server is told about.  `redactor` takes the secrets of the
    entry out of what is logged.
    """

    roots: tuple[Path, ...] = ()
    on_gone: Callable[[], None] = lambda: None
    on_tools_changed: Callable[[], None] = lambda: None
    on_offers_changed: Callable[[], None] = lambda: None
    ask: Ask = ask_nobody
    visit: Callable[[str], Awaitable[None]] = visit_nothing
    redactor: Redactor = field(default_factory=lambda: Redactor(()))


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is and what is sent along: a started program, or a URL with headers and, with `token_file`, OAuth.

    `oauth` is what the user's entry says of it: `client_id`, `client_secret`, `scope`, `client_metadata_url`.  `root` is the
    workspace as the server sees it, and `place` says what is around a program.
    """

    process: Served | None = None
    url: str = ""
    kind: str = "http"
    headers: Mapping[str, str] = field(default_factory=dict)
    token_file: Path | None = None
    oauth: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path()
    place: str = ""


class LinkBroken(McpError):
    """The connection is gone: what was asked may or may not have been done."""


async def _browse(url: str) -> object:
    """Open an address in the user's browser; what is none for browsers is not opened."""
    return is_web_address(url) and await asyncio.to_thread(webbrowser.open, url)


@dataclass(frozen=True, slots=True)
class ServerEnvironment:
    """What every server of a workspace has in common.

    `launcher` returns what starts programs, `browse` opens an address in the user's browser.  `environ` is where variables in
    entries are looked up.
    """

    workspace: Path
    launcher: Callable[[], Awaitable[GuardedLauncher | None]]
    environ: Mapping[str, str]
    on_change: Callable[[], None] = lambda: None
    browse: Callable[[str], Awaitable[object]] = _browse


async def address_of(
    entry: ServerEntry, memory: Memory, around: ServerEnvironment, parts: contextlib.AsyncExitStack
) -> ServerAddress:
    """Return where a server is; a program is started, and ends with `parts`.

    Raises:
        ConfigError: a variable is not set.
        McpError: no sandbox for it.
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
        return ServerAddress(None, filled(entry.url), entry.kind, headers, tokens, oauth, around.workspace)
    launcher = await around.launcher()
    if launcher is None:
        raise McpError("no sandbox that it could run in", on_host_hint(entry))
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
        keeps=hashlib.sha256(f"{entry.source}\0{entry.name}".encode("utf-8", "surrogateescape")).hexdigest()[:24],
    )
    memory.log.begin(f"{around.workspace}: {entry.words}")
    process = await launcher.open(launch, memory.log.add)
    parts.push_async_callback(process.close)
    is_inside = not entry.on_host and "not isolated" not in process.place and not process.place.startswith("landlock")
    root = Path(path_inside(around.workspace)) if is_inside else around.workspace
    return ServerAddress(process, root=root, place=process.place)


@contextlib.asynccontextmanager
async def guarded(entry: ServerEntry, around: ServerEnvironment) -> AsyncIterator[list[str]]:
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
