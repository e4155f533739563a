"""One GET over HTTP, to an address that was looked up before.  Loaded when the first page is fetched."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import httpx2

from lmtui.core.errors import ToolError

_HEADERS = {"User-Agent": "lmtui", "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, image/*;q=0.5, */*;q=0.1"}
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a server answered; `body` is unpacked and holds the first bytes only where `is_cut`."""

    status: int
    media_type: str
    location: str
    body: bytes
    is_cut: bool
    encoding: str


async def send(url: str, ip: str, max_bytes: int, roots: str, extra: Mapping[str, str] = MappingProxyType({})) -> HttpAnswer:
    """Return the answer of a server; the name in the address is what its certificate is checked for.

    `extra` are headers that only this request has.

    Raises:
        ToolError: it cannot be reached, or breaks the protocol.
    """
    address = httpx2.URL(url)
    headers = {**_HEADERS, **extra, "Host": address.netloc.decode("ascii")}
    limits = httpx2.Timeout(_TIMEOUT_S)
    request = httpx2.Request("GET", address.copy_with(host=ip), headers=headers, extensions={"sni_hostname": address.host})
    try:
        context = await asyncio.to_thread(_context, roots)
        async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=limits) as client:
            request.extensions["timeout"] = limits.as_dict()
            answer = await client.send(request, stream=True)
            try:
                return await _taken(answer, max_bytes)
            finally:
                await answer.aclose()
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ToolError(f"{address.host} cannot be fetched: {str(error) or type(error).__name__}") from error


@lru_cache(maxsize=4)
def _context(roots: str) -> ssl.SSLContext:
    """Return how certificates are checked.  Blocks: it reads every authority there is."""
    return ssl.create_default_context(cafile=roots or None)


async def _taken(answer: httpx2.Response, max_bytes: int) -> HttpAnswer:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > max_bytes:
            break
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return HttpAnswer(
        answer.status_code,
        media_type,
        answer.headers.get("location", ""),
        bytes(body[:max_bytes]),
        len(body) > max_bytes,
        answer.charset_encoding or "utf-8",
    )
