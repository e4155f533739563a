"""Addresses of model servers: what users type, what requests are sent to, and which of them are the same server.  Pure."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from lmtui.core.errors import UsageError


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
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise _not_an_address(address) from error
    if not has_host:
        raise _not_an_address(address)
    path = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(ending)
    if not path.endswith(("/v1", "/v3", "/openai")):
        path += "/v1"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path, "", ""))


def _not_an_address(address: str) -> UsageError:
    return UsageError(f"not a server address: {address!r}", "Write it as http://127.0.0.1:1234 or http://127.0.0.1:1234/v1.")


def root_url(address: str) -> str:
    """Return the address without its `/v1`: where servers have their own endpoints."""
    return base_url(address).removesuffix("/v1")


def without_alias(root: str) -> str:
    """Return an address with this machine's other names as 127.0.0.1, so that one server is not found twice."""
    parts = urlsplit(root)
    if parts.hostname not in ("localhost", "0.0.0.0", "::", "::1"):  # noqa: S104  (read, not listened on)
        return root
    host = f"127.0.0.1:{parts.port}" if parts.port else "127.0.0.1"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def is_same_server(one: str, other: str) -> bool:
    """Tell whether two addresses are the same server, whatever form they have; what is no address is only itself."""
    try:
        return without_alias(root_url(one)) == without_alias(root_url(other))
    except UsageError:
        return one == other
