"""What the life of a server needs of a connection, and what a connection may ask of us; the SDK is behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lmtui.core.errors import McpError
from lmtui.core.forms import Ask, ask_nobody
from lmtui.core.ports import OutputSink, ToolResult
from lmtui.core.redaction import Redactor
from lmtui.core.serving import Served
from lmtui.extensions.mcp_config import ServerEntry
from lmtui.extensions.mcp_names import RawTool
from lmtui.extensions.mcp_offers import Offers


async def visit_nothing(url: str) -> None:
    """Go nowhere, where nobody is there."""
    raise McpError(f"it wants a login at {url}")


@dataclass(slots=True)
class Hooks:
    """What a connection tells: `on_gone` is called when the other end has ended, `on_tools_changed` for another list of tools,
    `on_offers_changed` for other prompts or resources.

    `ask` puts a form before the user; a None of it declines.  `visit` lets the user go to an address, to log in, and returns
    when their browser is on its way.  `roots` are the folders that a server is told of.  `redactor` takes the secrets of the
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
class Address:
    """Where a server is and what is sent along: a started program, or a URL with headers and, with `token_file`, OAuth.

    `oauth` is what the user's entry says of it: `client_id`, `client_secret`, `scope`, `client_metadata_url`.
    """

    process: Served | None = None
    url: str = ""
    kind: str = "http"
    headers: Mapping[str, str] = field(default_factory=dict)
    token_file: Path | None = None
    oauth: Mapping[str, str] = field(default_factory=dict)


class LinkBroken(McpError):
    """The connection is gone: what was asked may or may not have been done."""


class Connection(Protocol):
    """An open connection to one server."""

    @property
    def version(self) -> str:
        """Return the server's name and version and the protocol's, in words."""

    async def list_tools(self) -> Sequence[RawTool]:
        """Return all its tools.

        Raises:
            McpError: it cannot list them.
        """

    async def list_offers(self) -> Offers:
        """Return its prompts and resources; what it does not announce is not asked for, what it does not list is left out."""

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> ToolResult:
        """Return what a prompt says, with its pictures.

        Raises:
            McpError: the server refuses.
        """

    async def read_resource(self, uri: str) -> ToolResult:
        """Return what a resource holds, with its pictures.

        Raises:
            McpError: the server refuses.
        """

    async def call(self, tool: str, arguments: Mapping[str, object], on_output: OutputSink, timeout_s: float) -> ToolResult:
        """Call a tool; its progress goes to `on_output`.  Cancelling tells the server.

        Raises:
            McpError: the server refuses, or does not answer in time.
        """


Connect = Callable[[ServerEntry, Address, Hooks], AbstractAsyncContextManager[Connection]]
