"""Host names and addresses as the network proxy takes them: one strict parser, exact names or a suffix, public addresses."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

from lmtui.core.errors import ToolError, UsageError


def base_url(address: str) -> str:
    """Return the `/v1` base of an address given as a root, a `/v1` or a full `/v1/chat/completions` address.

    Raises:
        UsageError: it is not an http or https address.
    """
    text = address.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        if re.search(r"\s", text) or parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError(text)
    except ValueError as error:
        hint = "Write it as http://127.0.0.1:1234 or http://127.0.0.1:1234/v1."
        raise UsageError(f"not a server address: {address!r}", hint) from error
    path = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(ending)
    if not path.endswith(("/v1", "/v3", "/openai")):
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def root_url(address: str) -> str:
    """Return the address without its `/v1`: where servers have their own endpoints."""
    return base_url(address).removesuffix("/v1")


def origin(address: str) -> str:
    """Return the scheme, host and port of an address (RFC 6454) in one spelling; a host that is not ASCII stays as it is.

    Raises:
        UsageError: it is not an http or https address.
    """
    parts = urlsplit(base_url(address))
    host = (parts.hostname or "") if parts.netloc.isascii() else parts.netloc
    return f"{parts.scheme}://{host.removesuffix('.')}:{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"


def without_alias(root: str) -> str:
    """Return an address with this machine's other names as 127.0.0.1, so that one server is not found twice."""
    parts = urlsplit(root)
    if parts.hostname not in ("localhost", "0.0.0.0", "::", "::1"):  # noqa: S104  (read, not listened on)
        return root
    host = f"127.0.0.1:{parts.port}" if parts.port else "127.0.0.1"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def is_same_server(one: str, other: str) -> bool:
    """Tell whether two addresses are the same server, whatever form they have; what is not an address is only itself."""
    try:
        return without_alias(root_url(one)) == without_alias(root_url(other))
    except UsageError:
        return one == other


NETWORK_TOOL = "network"  # the name that rules about hosts have: Network(pypi.org)
SHOWN_TOOLS = "tools"  # the name that rules about folders of tools have: Tools(/srv/tools)
COMMAND_QUESTIONS = (NETWORK_TOOL, SHOWN_TOOLS)  # what is asked while a command runs

# RFC 1123 labels in lower case, at least two of them, the last not a number (that would be an address).
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?=[a-z0-9-]*[a-z]){_LABEL}\Z", re.ASCII)
_REGISTRY_LABELS = frozenset({"gouv", "asso", "info", "govt", "github", "gitlab", "herokuapp", "appspot", "cloudfront"})
_IPV6_UNICAST = ipaddress.ip_network("2000::/3")  # RFC 4291 §2.4: all that is assigned for global use so far
# Networks that are global by their number and yet lead to others: 6to4, Teredo.
_DETOURS = tuple(map(ipaddress.ip_network, ("2002::/16", "2001::/32")))


def parse_host(text: str) -> str:
    """Return a host name in lower case.

    Raises:
        UsageError: it is not one: an address, a name without a dot, or with characters that names do not have.
    """
    host = text.lower() if text.isascii() else ""
    if _HOST.match(host) is None:
        raise UsageError(f"not a host name: {text[:80]!r}", "Write it as pypi.org, or .pythonhosted.org for all below it.")
    return host


def parse_pattern(text: str) -> str:
    """Return a pattern: a host name, or a dot and a host name for every name that ends so.

    Raises:
        UsageError: it is neither.
    """
    return "." + parse_host(text[1:]) if text.startswith(".") else parse_host(text)


def is_covered(host: str, patterns: Iterable[str]) -> bool:
    """Tell whether a host is one of the patterns, or below one that begins with a dot."""
    return any(host.endswith(pattern) if pattern.startswith(".") else host == pattern for pattern in patterns)


def wider_patterns(host: str) -> tuple[str, ...]:
    """Return patterns to offer next to a host: all names of its domain, unless that may be a registry's own (co.uk)."""
    labels = host.split(".")
    domain = labels[-2:]
    is_registry = len(domain[0]) <= 3 or domain[0] in _REGISTRY_LABELS
    return () if len(labels) < 3 or is_registry else ("." + ".".join(domain),)


def is_public(address: str) -> bool:
    """Tell whether an address (RFC 6890's registries) is on the public internet, and not a way round to one that is not."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found not in _IPV6_UNICAST or any(found in detour for detour in _DETOURS):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved and not found.is_unspecified


class HostApproval(Protocol):
    """Who is asked when a command wants to reach a host of the internet, and told of every one."""

    async def may_reach(self, host: str, *, is_listed: bool = False, what: str = "") -> bool:
        """Return whether a host may be reached; may ask the user, unless `is_listed`: a setting allows it, a rule may not.

        `what` says what lmtui itself would do there, if it is not a command.
        """

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        """Take note that a connection ended, or with `why_not` that it was refused."""


class ToolGate(HostApproval, Protocol):
    """Who is also asked when a command lacks a tool of the user."""

    async def may_show(self, folder: str, why: str) -> bool:
        """Return whether commands may read a folder of tools from now on; may ask the user."""

    def warn(self, text: str) -> None:
        """Show the user why a command failed."""


_PORTS = {"http": 80, "https": 443}
_MAX_URL_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class PageAddress:
    """A web address that was read: `host` in lower case, `is_public` unless its name says that it is not of the internet."""

    url: str
    scheme: str
    host: str
    port: int
    is_public: bool

    @property
    def place(self) -> str:
        """Return host and port, the port only where it is not the usual one."""
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Page:
    """What a server sent: `text` as Markdown where it was HTML, `data` where it is a picture.

    `url` is the address after redirects, `is_cut` says that the page was truncated.
    """

    url: str
    media_type: str
    text: str = ""
    data: bytes = b""
    total_bytes: int = 0
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class SearchBackend:
    """What answers searches: an engine (`searxng`, `brave`) at an address, or the user's own program with its arguments."""

    kind: str
    url: str = ""
    command: tuple[str, ...] = ()


_BRAVE = "https://api.search.brave.com/res/v1/web/search"
_SEARCH_HINT = "Use searxng: http://127.0.0.1:8888, brave, or command: PROGRAM ARGUMENTS.  See docs/more-tools.md."


def parse_search_backend(text: str) -> SearchBackend | None:
    """Return what a setting names, None where it is empty.

    Raises:
        UsageError: it names nothing that answers searches.
    """
    kind, _, rest = (part.strip() for part in text.strip().partition(":"))
    match kind.lower():
        case "" if not rest:
            return None
        case "command" if command := _words(rest):
            return SearchBackend("command", command=command)
        case "searxng" if rest:
            address = _search_address(rest)
            whole = address.url.rstrip("/")
            return SearchBackend("searxng", whole if whole.endswith("/search") else f"{whole}/search")
        case "brave":
            address = _search_address(rest or _BRAVE)
            if address.is_public and address.scheme != "https":
                raise UsageError("the address for Brave must start with https, because the key is sent there", _SEARCH_HINT)
            return SearchBackend("brave", address.url)
        case _:
            raise UsageError(f"{text[:80]!r} is not a search backend", _SEARCH_HINT)


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise UsageError(f"the command {command[:80]!r} cannot be read: {error}", _SEARCH_HINT) from error


def _search_address(text: str) -> PageAddress:
    try:
        address = read_address(text)
    except ToolError as error:
        raise UsageError(str(error), _SEARCH_HINT) from error
    if "?" in address.url:
        raise UsageError(f"{text[:80]!r} contains a query; give only the address", _SEARCH_HINT)
    return address


@dataclass(frozen=True, slots=True)
class WebResult:
    """A result of a search, each part in a line; what it says is data."""

    title: str
    url: str
    snippet: str = ""


class Web(Protocol):
    """The way to the web."""

    async def get(self, address: PageAddress, gate: HostApproval | None, *, selector: str = "") -> Page:
        """Fetch a page; with a CSS selector, only what it matches in HTML.

        Each public host passes the host check; approval for a private address must exist before.

        Raises:
            ToolError: it may not, or could not, be fetched; the text says why.
        """

    async def search(self, query: str, most: int, gate: HostApproval | None) -> tuple[str, Sequence[WebResult]]:
        """Return who answered a search, and at most so many results; a public host passes the host check.

        Raises:
            ToolError: nothing answers searches here, or it failed; the text says why.
        """


def read_address(text: str) -> PageAddress:
    """Return a web address.

    Raises:
        ToolError: it is none that is fetched.
    """
    url = text.strip()
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port
    except ValueError as error:
        raise ToolError(f"{text[:80]!r} is not a web address: {error}") from error
    if parts.scheme not in _PORTS:
        raise ToolError(f"only http and https are fetched, not {parts.scheme[:20]}")
    if not parts.hostname or len(text) > _MAX_URL_CHARS:
        raise ToolError(f"{text[:80]!r} is not a web address")
    if "@" in parts.netloc:
        raise ToolError("addresses with a user name or password are not fetched")
    if any(ord(char) <= ord(" ") or ord(char) > ord("~") for char in text.strip()):
        raise ToolError("an address has no spaces and no letters beyond ASCII", "Write them as %XX, host names as xn--….")
    host = parts.hostname.rstrip(".")
    whole = parts._replace(netloc=parts.netloc.lower(), fragment="").geturl()
    return PageAddress(whole, parts.scheme, host, port or _PORTS[parts.scheme], _is_name(host) or is_public(host))


def _is_name(host: str) -> bool:
    """Tell whether a host is a name of the internet: localhost, names without a dot and `.local` ones are not."""
    try:
        name = parse_host(host)
    except UsageError:
        return False
    return not name.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa", ".test", ".invalid"))


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
