"""Addresses of model servers as the environment names them, and which of them are near."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from lmtui.core.hosts import base_url, root_url, without_alias

LOCAL_KEY = "lm-studio"


def ollama_url(host: str) -> str:
    """Return the address that `OLLAMA_HOST` means, empty where it is none.

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
    """Return the address that llama.cpp's own variables mean, empty where they name none."""
    host, port = environment.get("LLAMA_ARG_HOST", "").strip(), environment.get("LLAMA_ARG_PORT", "").strip()
    if not (host or port) or "/" in host:
        return ""
    return ollama_url(f"http://{f'[{host}]' if ':' in host else host}:{port or 8080}")


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


_CONNECT_S = 5.0
_PORTS = {"http": 80, "https": 443}


async def is_reachable(url: str) -> bool:
    """Tell whether somebody takes connections at an address; one behind a proxy cannot be looked at, and is taken to."""
    parts = urlsplit(root_url(url))
    if not is_local(url) and _has_proxy(parts.scheme):
        return True
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or _PORTS.get(parts.scheme, 80))
    except OSError:  # a limit that ran out is one
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def _has_proxy(scheme: str) -> bool:
    names = (f"{scheme}_proxy", "all_proxy")
    return any(os.environ.get(each) or os.environ.get(each.upper()) for each in names)
