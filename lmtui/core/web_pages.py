"""Pages of the web: what is asked for and what comes.  Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.hosts import HostApproval, is_public, parse_host

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

    `url` is the address after redirects, `is_cut` says that the page was truncated, `is_selected` that this is only what a CSS
    selector matches.
    """

    url: str
    media_type: str
    text: str = ""
    data: bytes = b""
    total_bytes: int = 0
    is_cut: bool = False
    is_selected: bool = False


class Web(Protocol):
    """The way to the web."""

    async def get(self, address: PageAddress, gate: HostApproval | None, *, selector: str = "") -> Page:
        """Fetch a page; with a CSS selector, only what it matches in HTML.

        Each public host passes the host check; approval for a private address must exist before.

        Raises:
            ToolError: it may not, or could not, be fetched; the text says why.
        """


class NoWeb:
    """Stands where there is none."""

    async def get(self, address: PageAddress, gate: HostApproval | None, *, selector: str = "") -> Page:
        """Say so."""
        del gate, selector
        raise ToolError(f"{address.host} cannot be reached from here")


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
    _check(parts, text)
    host = (parts.hostname or "").rstrip(".")
    whole = parts._replace(netloc=parts.netloc.lower(), fragment="").geturl()
    return PageAddress(whole, parts.scheme, host, port or _PORTS[parts.scheme], _is_name(host) or is_public(host))


def _check(parts: SplitResult, text: str) -> None:
    if not parts.hostname or len(text) > _MAX_URL_CHARS:
        raise ToolError(f"{text[:80]!r} is not a web address")
    if "@" in parts.netloc:
        raise ToolError("addresses with a user name or password are not fetched")
    if any(ord(char) <= ord(" ") or ord(char) > ord("~") for char in text.strip()):
        raise ToolError("an address has no spaces and no letters beyond ASCII", "Write them as %XX, host names as xn--….")


def _is_name(host: str) -> bool:
    """Tell whether a host is a name of the internet: localhost, names without a dot and `.local` ones are not."""
    try:
        name = parse_host(host)
    except UsageError:
        return False
    return not name.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa", ".test", ".invalid"))
