"""A page: one GET over HTTP to an address that was looked up before, and its HTML as Markdown.

HTML is converted in a process of parsers, which loads this module too.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import ssl
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lmtui.core.errors import ToolError

_HEADERS = {"User-Agent": "lmtui", "Accept": "text/html, text/*;q=0.9, application/json;q=0.9, image/*;q=0.5, */*;q=0.1"}
_TIMEOUT_S = 20.0
MAX_BYTES = 5_000_000
_MOST_CHARS = 5_000_000  # nesting makes a page longer than it was: each level stands before each of its lines
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "form", "button", "nav")


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


def convert(html: str, selector: str = "") -> tuple[str, str]:
    """Return why a CSS selector selects nothing, and what is there to be read: title, then text."""
    sys.setrecursionlimit(10_000)
    bs4, markdownify, soupsieve = map(importlib.import_module, ("bs4", "markdownify", "soupsieve"))
    soup = bs4.BeautifulSoup(html, "html.parser")
    if selector:
        try:
            found = soup.select(selector)
        except soupsieve.SelectorSyntaxError:
            return "is not a CSS selector", ""
        if not found:
            return "matches nothing on the page", ""
        soup = _joined(found, bs4.BeautifulSoup("", "html.parser"))
    for tag in soup.find_all(_DROPPED):
        tag.decompose()
    title = soup.title.get_text(strip=True) if soup.title else ""
    body = soup.find("main") or soup.find("article") or soup.body or soup
    text = markdownify.MarkdownConverter(heading_style="atx", strip=["title"], escape_misc=False).convert_soup(body)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    return "", (f"# {title}\n\n{text}" if title and not text.startswith(f"# {title}") else text)[:_MOST_CHARS]


def _joined(found: Any, part: Any) -> Any:  # of bs4
    """Put what was found into an empty page; what is inside of another is there with it."""
    inner = {id(child) for tag in found for child in tag.descendants}
    for tag in found:
        if id(tag) not in inner:
            part.append(tag.extract())
    return part
