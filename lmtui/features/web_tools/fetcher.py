"""Fetching pages and searching: each public host is asked about and looked up once, and that address is connected to.

Only GET, at most 5 MB and 30 s for all of it but the user's answers.  A redirect is a new address: another public host is
asked about, a private one is refused.
"""

from __future__ import annotations

import asyncio
import codecs
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urljoin

from lmtui.command_line import NONE, OK, WARNING, CheckRow
from lmtui.core.errors import ConfigError, ToolError
from lmtui.core.hosts import (
    HTML,
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
from lmtui.features.service import SessionServices, WorkspaceFeature
from lmtui.features.web_tools.pages import HttpAnswer, convert, send_request
from lmtui.features.web_tools.search import address_of, headers_of, hits_of, plain_query, run_program
from lmtui.models.keys import resolve_key
from lmtui.parser_process import TooComplex, parsed_apart
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.tool import Told

TIME_S, _CONVERTING_S = 30.0, 20
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT = ("text/", "application/json", "application/xml", "application/yaml", "application/toml", "application/javascript")
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})
_OFF = 'The user can set web = "ask"; then each host is asked about. Go on with what is in the folder.'
_NO_SEARCH = (
    'The user can set web_search to "searxng: URL", "brave" or "command: PROGRAM" (docs/more-tools.md). '
    "Until then fetch pages whose address you know, or ask the user."
)

Resolve = Callable[[str, int], Awaitable[list[str]]]
Send = Callable[[str, str, Mapping[str, str]], Awaitable[HttpAnswer]]


async def to_markdown(html: str, selector: str = "") -> str:
    """Return a page as Markdown, or only what a CSS selector matches.

    Raises:
        ToolError: it takes too long or breaks the parser, or the selector is invalid or matches nothing.
    """
    try:
        problem, text = await asyncio.to_thread(parsed_apart, _CONVERTING_S, convert, html, selector)
    except TooComplex as error:
        raise ToolError("the page is too much to be read as text") from error
    if problem:
        raise ToolError(f"css_selector {selector[:80]!r} {problem}", "Leave it out to get the whole page.")
    return str(text)


async def _look_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


class WebClient:
    """Implements `core.web.Web`.

    Args:
        network: the policy for commands: `off`, `proxy` (single hosts) or `on`.
        is_on: whether the web may be reached at all.
        search: what answers searches, if anything does.
        key: the engine's key, or where it is (`models.keys.resolve_key`).
        resolve: returns the addresses of a host name.
        send: sends one request; see `send_request`.
        time_s: how long a page may take, including redirects.
    """

    def __init__(
        self,
        network: str,
        *,
        is_on: bool = True,
        search: SearchBackend | None = None,
        key: str = "",
        resolve: Resolve = _look_up,
        send: Send = send_request,
        time_s: float = TIME_S,
    ) -> None:
        self._network, self._is_on, self._search, self._key = network, is_on, search, key
        self._resolve, self._send, self._time_s = resolve, send, time_s

    async def get(self, address: PageAddress, gate: HostApproval | None, *, selector: str = "") -> Page:
        self._check_on()
        may_be_private, left_s = not address.is_public, self._time_s
        for _ in range(_MOST_REDIRECTS + 1):
            what = f"GET {address.url}"
            answer, left_s = await self._request(address, gate, what, left_s, may_be_private=may_be_private)
            if answer.status not in _REDIRECTS or not answer.location:
                return await _page(address, answer, selector)
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
            headers = headers_of(backend, await asyncio.to_thread(resolve_key, self._key))
        except ConfigError as error:
            raise ToolError(f"web_search_key: {error}", error.hint) from error
        what, is_private = f"search for: {query}", not address.is_public
        answer, _ = await self._request(address, gate, what, self._time_s, may_be_private=is_private, headers=headers)
        return address.place, hits_of(backend, address.place, answer, most)

    def _check_on(self) -> None:
        if not self._is_on:
            raise ToolError("the web is off", _OFF)

    async def _request(
        self,
        address: PageAddress,
        gate: HostApproval | None,
        what: str,
        left_s: float,
        *,
        may_be_private: bool,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[HttpAnswer, float]:
        """Ask about a public host, look it up and send a request; return the answer, and how much of the time is left then.

        Raises:
            ToolError: it may not be reached, or did not answer in time.
        """
        is_listed = self._network == "on"
        if address.is_public and (gate is None or not await gate.may_reach(address.host, is_listed=is_listed, what=what)):
            raise ToolError(f"{address.host} may not be reached", "The user decides about hosts: ask, or find another way.")
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(left_s):
                ip = await self._address_of(address, may_be_private=may_be_private)
                answer = await self._send(address.url, ip, headers)
        except TimeoutError as error:
            raise ToolError(f"{address.place} did not answer within {self._time_s:g} s") from error
        if gate is not None:
            gate.reached(address.host, len(address.url), len(answer.body), "")
        return answer, left_s - (clock() - began)

    async def _address_of(self, address: PageAddress, *, may_be_private: bool) -> str:
        """Look a host up.

        Raises:
            ToolError: it has no address, or one that is not of the public internet though its name is.
        """
        try:
            found = await self._resolve(address.host, address.port)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{address.host} was not found") from error
        private = [ip for ip in found if not is_public(ip)]
        if not found or (private and not may_be_private):
            why = f"its address {private[0]} is not on the public internet" if private else "it has no address"
            raise ToolError(f"{address.host} is not fetched: {why}")
        return found[0]


async def _page(address: PageAddress, answer: HttpAnswer, selector: str) -> Page:
    if answer.status >= 400:
        raise ToolError(f"{address.url} answered {answer.status}")
    media_type = answer.media_type or "text/plain"
    page = Page(address.url, media_type, total_bytes=len(answer.body), is_cut=answer.is_cut)
    if not (media_type.startswith(_TEXT) or media_type in HTML or media_type.endswith(("+json", "+xml"))):
        return replace(page, data=answer.body)
    text = answer.body.decode(_known(answer.encoding), "replace")
    return replace(page, text=await to_markdown(text, selector) if media_type in HTML else text)


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


class WebService(WorkspaceFeature):
    """Gives each session its way to the web."""

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Let it fetch and search."""
        del sandbox
        config = self.host.config
        is_on, search = config.web != "off", parse_search_backend(config.web_search)
        session.features.add(Web, WebClient(config.network, is_on=is_on, search=search, key=config.web_search_key))

    def told(self) -> Mapping[str, Told]:
        """What cannot work is not told, and a search only where something answers."""
        if self.host.config.web == "off":
            return {"fetch": Told.NEVER, "web_search": Told.NEVER}
        return {"web_search": Told.ALWAYS if self.host.config.web_search.strip() else Told.NEVER}

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
