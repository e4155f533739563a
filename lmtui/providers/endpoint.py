"""Addresses of model servers: what users type, and what requests are sent to."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from lmtui.core.errors import UsageError

LOCAL_KEY = "lm-studio"


def base_url(address: str) -> str:
    """Return the `/v1` base of an address given as a root, a `/v1` or a full `/v1/chat/completions` address.

    Raises:
        UsageError: it is not an http or https address.
    """
    text = address.strip()
    if "://" not in text:
        text = f"http://{text}"
    parts = urlsplit(text)
    try:
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host:
        raise UsageError(f"not a server address: {address!r}", "Write it as http://127.0.0.1:1234 or http://127.0.0.1:1234/v1.")
    path = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(ending)
    if not path.endswith(("/v1", "/v3", "/openai")):
        path += "/v1"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path, "", ""))


def root_url(address: str) -> str:
    """Return the address without its `/v1`: where servers have their own endpoints."""
    return base_url(address).removesuffix("/v1")


def ollama_url(host: str) -> str:
    """Return the address that `OLLAMA_HOST` stands for, empty where it is none.

    It is what a server listens on (`0.0.0.0`, `:11434`) or where a client looks (`host`, `https://host`), by Ollama's own
    documentation; without a scheme the port is 11434.
    """
    text = host.strip()
    has_scheme = "://" in text
    try:
        parts = urlsplit(text if has_scheme else f"http://{text}")
        port = parts.port or (None if has_scheme else 11434)
    except ValueError:
        return ""
    if not text or parts.scheme not in ("http", "https"):
        return ""
    name = parts.hostname or "127.0.0.1"
    shown = f"[{name}]" if ":" in name else name
    return without_alias(f"{parts.scheme}://{shown}:{port}" if port else f"{parts.scheme}://{shown}")


def llama_cpp_url(environment: Mapping[str, str]) -> str:
    """Return the address that llama.cpp's own variables stand for, empty where they name none."""
    host, port = environment.get("LLAMA_ARG_HOST", "").strip(), environment.get("LLAMA_ARG_PORT", "").strip()
    if not (host or port) or not (port or "8080").isdecimal() or "/" in host:
        return ""
    name = f"[{host}]" if ":" in host else host or "127.0.0.1"
    try:
        return without_alias(root_url(f"http://{name}:{port or 8080}"))
    except UsageError:
        return ""


def without_alias(root: str) -> str:
    """Return an address with this machine's other names as 127.0.0.1, so that one server is not found twice."""
    parts = urlsplit(root)
    if parts.hostname not in ("localhost", "0.0.0.0", "::", "::1"):  # noqa: S104  (read, not listened on)
        return root
    host = f"127.0.0.1:{parts.port}" if parts.port else "127.0.0.1"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def is_local(address: str) -> bool:
    """Tell whether an address is on this machine or a private network, where no key is needed."""
    host = urlsplit(base_url(address)).hostname or ""
    if host == "localhost" or host.endswith((".local", ".internal", ".lan")) or "." not in host.strip("[]").replace(":", "."):
        return True
    try:
        address_value = ip_address(host)
    except ValueError:
        return False
    return address_value.is_private or address_value.is_loopback
