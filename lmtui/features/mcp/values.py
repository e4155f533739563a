"""MCP servers as values: what is configured, where each is, which tools it has, and what a connection
to one needs; and what its own screens ask.  No I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from lmtui.core.errors import McpError
from lmtui.core.programs import Served
from lmtui.core.remote_marks import mirrored, open_to_network
from lmtui.core.sanitize import Redactor, pluralize, sanitize_line
from lmtui.core.tool_servers import Ask, ToolServers

WAIT_S = 122.0  # the limit of a start that fetches (npx, uvx), and a little more, so that what it failed of is known


class ServerState(StrEnum):
    """Where a server is."""

    OFF = "off"
    WAITING = "needs approval"
    REFUSED = "refused by you"
    STARTING = "starting"
    READY = "ready"
    CHANGED = "its tools changed"
    LOGIN = "needs a login"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def is_open(self) -> bool:
        """Tell whether the tools of such a server may be called."""
        return self not in (ServerState.CHANGED, ServerState.OFF, ServerState.WAITING, ServerState.REFUSED)


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server: `name` is what the model calls it by, `own_name` the server's word for it.

    `description` is cleaned and short, `parameters` its JSON Schema.  `tokens` is what telling it costs.  `reads`: it is
    lmtui's own and reads a resource of the server.
    """

    name: str
    server: str
    own_name: str
    description: str = ""
    parameters: dict[str, object] = field(default_factory=dict)
    tokens: int = 0
    reads: bool = False


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt of a server: `name` is the slash command, `own_name` the server's word for it; the rest is cleaned and short.

    `arguments` are the server's words for them, each with whether it is required.
    """

    name: str
    server: str
    own_name: str
    description: str = ""
    arguments: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class ToolChange:
    """What a tool was when the user accepted it, and is now: `kind` is added, removed or changed, `name` the server's word.

    `lines` begin with `- ` for what was there, `+ ` for what is there now, and two blanks for a remark; all are cleaned.
    """

    kind: str
    name: str
    lines: tuple[str, ...] = ()


def changes_text(changes: Sequence[ToolChange]) -> str:
    """Return in a few words how many tools were added, removed and changed."""
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("added", "removed", "changed") if counts[kind])


@dataclass(frozen=True, slots=True)
class McpServer:
    """A configured server: `source` is the file that names it, `place` what is around it, `words` its command or address.

    `problem` says why it is not ready, `hint` the way out, and of one that starts what it may lack.  `offered` are the tools
    that it has now, where those are not the ones that the user accepted, and `changes` what differs.  `warnings` say what of
    its entry is not read as its writer may think.  `reach` says where it runs, what it may reach and who decided that, `brings`
    how many prompts and resources it has.
    """

    name: str
    source: str
    state: ServerState
    transport: str = "stdio"
    place: str = ""
    words: str = ""
    tools: tuple[McpTool, ...] = ()
    problem: str = ""
    hint: str = ""
    version: str = ""
    offered: tuple[McpTool, ...] = ()
    changes: tuple[ToolChange, ...] = ()
    warnings: tuple[str, ...] = ()
    reach: str = ""
    brings: str = ""

    @property
    def tokens(self) -> int:
        """Return what telling all its tools costs."""
        return sum(tool.tokens for tool in self.tools)


def state_words(server: McpServer, *, is_waited_for: bool = False) -> str:
    """Return where a server is, and why; one that was waited for and still starts gave no answer."""
    if server.state is ServerState.READY:
        parts = (pluralize(len(server.tools), "tool"), pluralize(server.tokens, "token"), server.brings, server.place)
        return ", ".join(filter(None, ("" if is_waited_for else "ready", *parts)))
    if server.state is ServerState.STARTING and is_waited_for:
        return f"no answer within {WAIT_S:.0f} s"
    why = server.problem or changes_text(server.changes)
    return sanitize_line(f"{server.state}{f': {why}' if why else ''}")


@dataclass(frozen=True, slots=True)
class ConnectionHooks:
    """What a connection tells: `on_change` is called with `gone` when the other end has ended, with
    `tools` when these are others, and with `offers` when its prompts or resources are.

    `ask` puts a form before the user; a None of it declines.  `visit` lets the user go to an address,
    to log in, and returns when their browser is on its way.  `redactor` takes the secrets of the entry
    out of what is logged.
    """

    on_change: Callable[[str], None]
    ask: Ask
    visit: Callable[[str], Awaitable[None]]
    redactor: Redactor


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is and what is sent along: a started program, or a URL with headers and, with
    `token_file`, OAuth.

    `oauth` is what the user's entry says of it: `client_id`, `client_secret`, `scope`,
    `client_metadata_url`.  `root` is the workspace as the server sees it.
    """

    root: Path
    process: Served | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    token_file: Path | None = None
    oauth: Mapping[str, str] = field(default_factory=dict)


class LinkBroken(McpError):
    """The connection is gone: what was asked may or may not have been done."""


class McpServers(ToolServers, Protocol):
    """The servers of a workspace, and the user's hand on them."""

    @open_to_network
    @mirrored
    def servers(self) -> Sequence[McpServer]:
        """Return every server that is configured, by name."""

    def restart(self, name: str) -> None:
        """End a server and start it again; one that is off or waits is left alone."""

    def enable(self, name: str, *, is_on: bool) -> None:
        """Switch a server on or off, for this workspace, until it is switched again."""

    def accept(self, name: str) -> None:
        """Say yes to what waits: the server as its entry names it now, its tools as they are now, or its login.

        A login opens the browser at the address in `problem`.
        """

    def log_file(self, name: str) -> Path:
        """Return where what a server says next to its output is kept."""

    @open_to_network
    async def settle(self, limit_s: float) -> None:
        """Wait until every server that starts is ready or is not going to be, at most so long."""
