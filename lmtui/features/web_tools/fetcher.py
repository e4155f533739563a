"""Fetching pages and searching: each public host is asked about and looked up once, and that address is connected to.

Only GET, at most 5 MB and 30 s for all of it but the user's answers.  A redirect is a new address: another public host is
asked about, a private one is refused.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import importlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from lmtui.command_line import NONE, OK, WARNING, CheckRow
from lmtui.core.errors import ConfigError, ToolError
from lmtui.core.hosts import (
    HostApproval,
    Page,
    PageAddress,
    SearchBackend,
    Web,
    WebResult,
    is_public,
    parse_search_backend,
    read_address,
)
from lmtui.core.sanitize import sanitize_line
from lmtui.features.host_program import run_on_host
from lmtui.features.service import SessionServices, WorkspaceFeature
from lmtui.features.web_tools.search import address_of, headers_of, hits_of, plain_query, run_program
from lmtui.models.keys import resolve_key
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.tool import Told

if TYPE_CHECKING:
    from lmtui.features.web_tools.request import HttpAnswer


_TIME_S, _MOST_MARKDOWN_BYTES = 20, 20_000_000
_SELECTOR_PROBLEMS = {3: "matches nothing on the page", 4: "is not a CSS selector"}  # by the converter's exit code
_CONVERTER = Path(__file__).with_name("html_converter.py")


async def to_markdown(html: str, selector: str = "") -> str:
    """Return a page as Markdown, or only what a CSS selector matches.

    Raises:
        ToolError: it takes too long or breaks the parser, or the selector is invalid or matches nothing.
    """
    environ = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(_own_places())}
    words, given = (sys.executable, "-P", str(_CONVERTER), selector), html.encode("utf-8", "replace")
    ran = await run_on_host(words, given, Path("/"), environ, _TIME_S, most_bytes=_MOST_MARKDOWN_BYTES)
    if why := _SELECTOR_PROBLEMS.get(ran.exit_code):
        raise ToolError(f"css_selector {selector[:80]!r} {why}", "Leave it out to get the whole page.")
    if ran.exit_code:
        raise ToolError("the page cannot be read as HTML" if not ran.problem else "the page is too much to be read as text")
    return ran.out.decode("utf-8", "replace")


def _own_places() -> list[str]:
    """Return where modules are taken from: never the folder one is in, which is somebody else's."""
    here = Path.cwd().resolve()
    return [path for path in sys.path if Path(path).is_absolute() and Path(path).resolve() != here]


MAX_BYTES = 5_000_000
TIME_S = 30.0
_LOOKUP_S = 10.0
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT = ("text/", "application/json", "application/xml", "application/yaml", "application/toml", "application/javascript")
_HTML = ("text/html", "application/xhtml+xml")
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})
FETCH_TOOL, SEARCH_TOOL = "fetch", "web_search"
_REQUEST = "lmtui.features.web_tools.request"
_OFF = 'The user can set web = "ask"; then each host is asked about. Go on with what is in the folder.'
_NO_SEARCH = (
    'The user can set web_search to "searxng: URL", "brave" or "command: PROGRAM" (docs/more-tools.md). '
    "Until then fetch pages whose address you know, or ask the user."
)

Resolve = Callable[[str, int], Awaitable[list[str]]]
Convert = Callable[[str, str], Awaitable[str]]
Send = Callable[[str, str, int, str, Mapping[str, str]], Awaitable["HttpAnswer"]]


class _Time:
    """What is left of the time for a page."""

    def __init__(self, most_s: float) -> None:
        self._most_s = self._left_s = most_s

    @contextlib.asynccontextmanager
    async def running(self, address: PageAddress) -> AsyncIterator[None]:
        """Count the time of a block, and end it where none is left.

        Raises:
            ToolError: none is left.
        """
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._left_s):
                yield
        except TimeoutError as error:
            raise ToolError(f"{address.place} did not answer within {self._most_s:g} s") from error
        finally:
            self._left_s -= asyncio.get_running_loop().time() - began


class WebClient:
    """Implements `core.web.Web`.

    Args:
        network: the policy for commands: `off`, `proxy` (single hosts) or `on`.
        hosts: patterns that the settings allow.
        convert: turns HTML, or what a CSS selector matches in it, into Markdown.
        is_on: whether the web may be reached at all.
        search: what answers searches, if anything does.
        key: the engine's key, or where it is (`models.keys.resolve_key`).
        resolve: returns the addresses of a host name.
        send: sends one request; see `web_request.send`.
        roots: a file of certificate authorities that replaces the system's.
        time_s: how long a page may take, including redirects.
    """

    def __init__(
        self,
        network: str,
        convert: Convert,
        *,
        is_on: bool = True,
        search: SearchBackend | None = None,
        key: str = "",
        resolve: Resolve | None = None,
        send: Send | None = None,
        roots: str = "",
        time_s: float = TIME_S,
    ) -> None:
        self._network = network
        self._convert = convert
        self._is_on, self._search, self._key = is_on, search, key
        self._resolve = resolve or _look_up
        self._given_send = send
        self._roots = roots
        self._time_s = time_s

    async def get(self, address: PageAddress, gate: HostApproval | None, *, selector: str = "") -> Page:
        self._check_on()
        may_be_private = not address.is_public
        time = _Time(self._time_s)
        for _ in range(_MOST_REDIRECTS + 1):
            await self._ask(address, gate, f"GET {address.url}")
            async with time.running(address):
                ip = await self._address_of(address, may_be_private=may_be_private)
                answer = await self._send(address, ip)
            if gate is not None:
                gate.reached(address.host, len(address.url), len(answer.body), "")
            if answer.status not in _REDIRECTS or not answer.location:
                return await self._page(address, answer, selector)
            following = read_address(_joined(address, answer.location))
            if following.place != address.place and not following.is_public:
                raise ToolError(f"it leads to {following.place}, which is not on the public internet: fetch that by itself")
            address, may_be_private = following, may_be_private and not following.is_public
        raise ToolError(f"more than {_MOST_REDIRECTS} redirects")

    async def search(self, query: str, most: int, gate: HostApproval | None) -> tuple[str, Sequence[WebResult]]:
        self._check_on()
        backend = self._search
        if backend is None:
            raise ToolError("web_search is not set up: the setting web_search is empty", _NO_SEARCH)
        query = plain_query(query)
        if backend.command:
            return sanitize_line(Path(backend.command[0]).name), await run_program(backend.command, query, most)
        address = read_address(backend.url)
        address = replace(address, url=address_of(backend, query, most))
        try:
            key = await asyncio.to_thread(resolve_key, self._key)
        except ConfigError as error:
            raise ToolError(f"web_search_key: {error}", error.hint) from error
        headers = headers_of(backend, key)
        await self._ask(address, gate, f"search for: {query}")
        async with _Time(self._time_s).running(address):
            ip = await self._address_of(address, may_be_private=not address.is_public)
            answer = await self._send(address, ip, headers)
        if gate is not None:
            gate.reached(address.host, len(address.url), len(answer.body), "")
        return address.place, hits_of(backend, address.place, answer, most)

    def _check_on(self) -> None:
        if not self._is_on:
            raise ToolError("the web is off", _OFF)

    async def _ask(self, address: PageAddress, gate: HostApproval | None, what: str) -> None:
        """Ask whether a public host may be reached.

        Raises:
            ToolError: it may not.
        """
        if not address.is_public:
            return
        if gate is None or not await gate.may_reach(address.host, is_listed=self._network == "on", what=what):
            raise ToolError(f"{address.host} may not be reached", "The user decides about hosts: ask, or find another way.")

    async def _address_of(self, address: PageAddress, *, may_be_private: bool) -> str:
        """Look a host up.

        Raises:
            ToolError: it has no address, or one that is not of the public internet though its name is.
        """
        try:
            async with asyncio.timeout(_LOOKUP_S):
                found = await self._resolve(address.host, address.port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise ToolError(f"{address.host} was not found") from error
        private = [ip for ip in found if not is_public(ip)]
        if not found or (private and not may_be_private):
            why = f"its address {private[0]} is not on the public internet" if private else "it has no address"
            raise ToolError(f"{address.host} is not fetched: {why}")
        return found[0]

    async def _send(self, address: PageAddress, ip: str, headers: Mapping[str, str] = MappingProxyType({})) -> HttpAnswer:
        send: Send = self._given_send or (await asyncio.to_thread(importlib.import_module, _REQUEST)).send
        return await send(address.url, ip, MAX_BYTES, self._roots, headers)

    async def _page(self, address: PageAddress, answer: HttpAnswer, selector: str) -> Page:
        if answer.status >= 400:
            raise ToolError(f"{address.url} answered {answer.status}")
        media_type = answer.media_type or "text/plain"
        total = len(answer.body)
        if not (media_type.startswith(_TEXT) or media_type in _HTML or media_type.endswith(("+json", "+xml"))):
            return Page(address.url, media_type, data=answer.body, total_bytes=total, is_cut=answer.is_cut)
        text = answer.body.decode(_known(answer.encoding), "replace")
        is_html = media_type in _HTML
        if is_html:
            text = await self._convert(text, selector)
        is_selected = is_html and bool(selector)
        return Page(address.url, media_type, text, total_bytes=total, is_cut=answer.is_cut, is_selected=is_selected)


def _joined(address: PageAddress, location: str) -> str:
    """Return where a redirect leads.

    Raises:
        ToolError: to nothing that is an address.
    """
    try:
        return urljoin(address.url, location)
    except ValueError as error:
        raise ToolError(f"{address.place} leads to {sanitize_line(location)[:80]!r}, which is not an address") from error


def _known(encoding: str) -> str:
    """Return an encoding that pages are written in; Python's own for other things (hex, punycode) break, or take hours."""
    try:
        name = codecs.lookup(encoding).name
        _ = b"a".decode(name, "replace")
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if name in _NO_CHARSETS else name


async def _look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


class WebService(WorkspaceFeature):
    """Gives each session its way to the web."""

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Let it fetch and search."""
        del sandbox
        config = self.host.config
        is_on, search = config.web != "off", parse_search_backend(config.web_search)
        web = WebClient(config.network, to_markdown, is_on=is_on, search=search, key=config.web_search_key)
        session.features.add(Web, web)

    def told(self) -> Mapping[str, Told]:
        """What cannot work is not told, and a search only where something answers."""
        can_search = bool(parse_search_backend(self.host.config.web_search))
        if self.host.config.web == "off":
            return {FETCH_TOOL: Told.NEVER, SEARCH_TOOL: Told.NEVER}
        return {SEARCH_TOOL: Told.ALWAYS if can_search else Told.NEVER}

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Tell whether the model may reach the web, and what answers its searches."""
        del is_offline
        config = self.host.config
        if config.web == "off":
            return [CheckRow("web", NONE, "off")]
        backend = parse_search_backend(config.web_search)
        if backend is None:
            return [CheckRow("web", OK, "fetch asks about each host; web_search is not set up")]
        who = sanitize_line(Path(backend.command[0]).name) if backend.command else read_address(backend.url).place
        if backend.kind == "brave" and not config.web_search_key:
            return [CheckRow("web", WARNING, "web_search: Brave has no key", "Set web_search_key.")]
        return [CheckRow("web", OK, f"fetch asks about each host; web_search: {backend.kind} ({who})")]
