"""Whether something takes connections where a model server should be; nothing is asked of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from urllib.parse import urlsplit

from lmtui.core.addresses import root_url
from lmtui.providers.endpoint import is_local

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
