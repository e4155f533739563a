"""Fetching pages and searching: each public host is asked about and looked up once, and that address is connected to.

Only GET, at most 5 MB and 30 s for all of it but the user's answers.  A redirect is a new address: another public host is
asked about, a private one is refused.  All of an answer to a search is somebody else's text: each part becomes one short line
without control characters.
"""

from __future__ import annotations

import asyncio
import codecs
import html
import importlib
import json
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urljoin

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
from lmtui.core.sanitize import clipped, sanitize_line
from lmtui.features.host_program import MAX_OUTPUT_BYTES, run_on_host
from lmtui.features.service import SessionServices, WorkspaceFeature
from lmtui.features.web_tools.html_markdown import HTML, convert
from lmtui.models.keys import resolve_key
from lmtui.parser_process import TooComplex, parser_apart
from lmtui.paths import without_keys
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.tool import Told

_HEADERS = {"User-Agent": "lmtui", "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, image/*;q=0.5, */*;q=0.1"}
_TIMEOUT_S = 20.0
MAX_BYTES = 5_000_000
TIME_S, _CONVERTING_S, _MOST_REDIRECTS = 30.0, 20, 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT = ("text/", "application/json", "application/xml", "application/yaml", "application/toml", "application/javascript")
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape"})
_OFF = 'The user can set web = "ask"; then each host is asked about. Go on with what is in the folder.'
_NO_SEARCH = (
    'The user can set web_search to "searxng: URL", "brave" or "command: PROGRAM" (docs/more-tools.md). '
    "Until then fetch pages whose address you know, or ask the user."
)
MOST_QUERY_CHARS = 400  # the limit of Brave
_COMMAND_S = 20.0
_TITLE_CHARS, _URL_CHARS, _SNIPPET_CHARS = 150, 500, 300
_TAG = re.compile(r"<[^<>]{0,200}>")
_BRAVE_REFUSES = (401, 403, 422)  # 422 is what Brave answers to a key that it does not know


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered; `body` is unpacked and holds the first bytes only where `is_cut`."""

    status: int
    media_type: str
    location: str
    body: bytes
    is_cut: bool
    encoding: str


async def send_request(url: str, ip: str, extra: Mapping[str, str]) -> HttpAnswer:
    """Return the answer of a server; the name in the address is what its certificate is checked for.

    `extra` are headers that only this request has.

    Raises:
        ToolError: it cannot be reached, or breaks the protocol.
    """
    httpx2 = await asyncio.to_thread(importlib.import_module, "httpx2")  # heavy: a start does not wait for it
    address = httpx2.URL(url)
    headers = {**_HEADERS, **extra, "Host": address.netloc.decode("ascii")}
    request = httpx2.Request("GET", address.copy_with(host=ip), headers=headers, extensions={"sni_hostname": address.host})
    try:
        context = await asyncio.to_thread(_context)
        async with httpx2.AsyncClient(verify=context, trust_env=False) as client:
            request.extensions["timeout"] = httpx2.Timeout(_TIMEOUT_S).as_dict()
            answer = await client.send(request, stream=True)
            try:
                return await _taken(answer)
            finally:
                await answer.aclose()
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ToolError(f"{address.host} cannot be fetched: {str(error) or type(error).__name__}") from error


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    """Return how certificates are checked.  Blocks: it reads every authority there is."""
    return ssl.create_default_context()


async def _taken(answer: Any) -> HttpAnswer:  # of httpx2
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MAX_BYTES:
            break
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    location, encoding = answer.headers.get("location", ""), answer.charset_encoding or "utf-8"
    return HttpAnswer(answer.status_code, media_type, location, bytes(body[:MAX_BYTES]), len(body) > MAX_BYTES, encoding)


Resolve = Callable[[str, int], Awaitable[list[str]]]
Send = Callable[[str, str, Mapping[str, str]], Awaitable[HttpAnswer]]


async def to_markdown(text: str, selector: str = "") -> str:
    """Return a page as Markdown, or only what a CSS selector matches.

    Raises:
        ToolError: it takes too long or breaks the parser, or the selector is invalid or matches nothing.
    """
    parser = parser_apart(_CONVERTING_S)
    try:
        problem, found = await asyncio.to_thread(parser.call, convert, (text, selector))
    except TooComplex as error:
        raise ToolError("the page is too large to be read as text") from error
    finally:
        _ = asyncio.get_running_loop().run_in_executor(None, parser.close)
    if problem:
        raise ToolError(f"css_selector {selector[:80]!r} {problem}", "Leave it out to get the whole page.")
    return str(found)


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
        fields, headers = {"q": query, "format": "json"}, {"Accept": "application/json"}
        if backend.kind == "brave":
            fields = {"q": query, "count": str(most)}
            try:
                headers["X-Subscription-Token"] = await asyncio.to_thread(resolve_key, self._key)
            except ConfigError as error:
                raise ToolError(f"web_search_key: {error}", error.hint) from error
            if not headers["X-Subscription-Token"]:
                raise ToolError("Brave needs a key, and none is set", "Tell the user to set web_search_key.")
        address = read_address(backend.url)
        address = replace(address, url=f"{backend.url}?{urlencode(fields)}")
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


def plain_query(text: str) -> str:
    """Return a query in one line; without a dash in front, which a program would take for an option.

    Raises:
        ToolError: nothing is left, or it is too long.
    """
    query = sanitize_line(" ".join(text.split())).lstrip("-– ")
    if not query:
        raise ToolError("the query is empty")
    if len(query) > MOST_QUERY_CHARS:
        raise ToolError(f"the query has {len(query):,} characters; the limit is {MOST_QUERY_CHARS}", "Search for a few words.")
    return query


def hits_of(backend: SearchBackend, place: str, answer: HttpAnswer, most: int) -> Sequence[WebResult]:
    """Return what an engine found.

    Raises:
        ToolError: it refused, or its answer is not what engines of its kind answer.
    """
    status = answer.status
    if 300 <= status < 400:
        to = sanitize_line(answer.location)[:200]
        raise ToolError(f"{place} redirects searches to {to}", "Tell the user to change the address in web_search.")
    if backend.kind == "brave" and status in _BRAVE_REFUSES:
        raise ToolError(f"{place} refused the key ({status})", "Tell the user to correct web_search_key.")
    if backend.kind == "searxng" and status in (401, 403):
        how = "Tell the user: its settings.yml must list json under search: formats."
        raise ToolError(f"{place} does not answer searches in JSON ({status})", how)
    if status == 429:
        raise ToolError(f"{place} refused: too many searches (429)", "Wait a while, or continue without searching.")
    if status >= 400:
        raise ToolError(f"{place} answered {status}")
    if answer.is_cut:
        raise ToolError(f"the answer from {place} is too long")
    found = _json(answer.body)
    if backend.kind == "brave" and isinstance(found, dict):
        found = found.get("web", {"results": []})  # without a result Brave leaves it out
    results = found.get("results") if isinstance(found, dict) else None
    if not isinstance(results, list):
        raise ToolError(f"{place} did not answer like a search engine", "Tell the user to check web_search.")
    return _first(results, most)


async def run_program(command: Sequence[str], query: str, most: int, limit_s: float = _COMMAND_S) -> Sequence[WebResult]:
    """Run the user's program with a query as its last argument, without a shell, and return what it found.

    Raises:
        ToolError: it cannot be run, fails, takes too long or prints too much or something else.
    """
    name = sanitize_line(Path(command[0]).name)
    home = Path.home()  # never the workspace, from which a program may take code
    ran = await run_on_host((*command, query), b"", home, without_keys(os.environ), limit_s)
    if ran.is_cut:
        raise ToolError(f"{name} printed more than {MAX_OUTPUT_BYTES:,} bytes")
    if ran.problem:
        raise ToolError(f"{name} of web_search {ran.problem}", "Tell the user to correct it.")
    if ran.exit_code:
        last = sanitize_line(ran.err.decode("utf-8", "replace").strip().rpartition("\n")[2])[:200]
        raise ToolError(f"{name} failed with exit code {ran.exit_code}{f': {last}' if last else ''}")
    return _printed(ran.out.decode("utf-8", "replace"), name, most)


def _printed(text: str, name: str, most: int) -> Sequence[WebResult]:
    """Read a JSON list of objects, or lines of URL, title and snippet with tabs between them."""
    if not text.strip():
        return ()
    if text.lstrip().startswith("["):
        found = _json(text.encode())
        return _first(found if isinstance(found, list) else [], most)
    rows = [line.split("\t", 2) for line in text.splitlines() if line.strip()]
    hits = _first([dict(zip(("url", "title", "snippet"), row, strict=False)) for row in rows], most)
    if not hits:
        raise ToolError(f"{name} printed neither a JSON list nor lines of URL, title and snippet with tabs between them")
    return hits


def _json(data: bytes) -> Any:  # Any: it may be anything
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ToolError("the answer to the search is not JSON") from error


def _first(results: Sequence[object], most: int) -> Sequence[WebResult]:
    return [*dict.fromkeys(_hits(results))][:most]


def _hits(results: Sequence[object]) -> Iterator[WebResult]:
    """Yield what has an address; an engine's own marks in a text are taken out."""
    for each in results:
        if not isinstance(each, dict):
            continue
        url = _line(each.get("url"))
        snippet = next((text for name in ("content", "description", "snippet") if (text := _line(each.get(name)))), "")
        if url.lower().startswith(("http://", "https://")) and len(url) <= _URL_CHARS:
            title = clipped(_line(each.get("title")), _TITLE_CHARS)
            yield WebResult(title or url, url, clipped(snippet, _SNIPPET_CHARS))


def _line(value: object) -> str:
    text = html.unescape(_TAG.sub("", value[:5_000])) if isinstance(value, str) else ""
    return sanitize_line(" ".join(text.split()))


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
