"""Searches: what a search engine or a program of the user's own is asked, and what is taken from its answer.

All of an answer is somebody else's text: each part becomes one short line without control characters.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lmtui.core.errors import ToolError
from lmtui.core.hosts import SearchBackend, WebResult
from lmtui.core.sanitize import sanitize_line
from lmtui.features.host_program import run_on_host
from lmtui.features.web_tools.pages import HttpAnswer
from lmtui.paths import without_keys

MOST_QUERY_CHARS = 400  # the limit of Brave
_COMMAND_S = 20.0
_MOST_BYTES = 1_000_000
_TITLE_CHARS, _URL_CHARS, _SNIPPET_CHARS = 150, 500, 300
_TAG = re.compile(r"<[^<>]{0,200}>")
_BRAVE_REFUSES = (401, 403, 422)  # 422 is what Brave answers to a key that it does not know


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


def address_of(backend: SearchBackend, query: str, most: int) -> str:
    """Return the address that answers a query."""
    parts = {"q": query, "format": "json"} if backend.kind == "searxng" else {"q": query, "count": str(most)}
    return f"{backend.url}?{urlencode(parts)}"


def headers_of(backend: SearchBackend, key: str) -> dict[str, str]:
    """Return what a request carries beyond the usual.

    Raises:
        ToolError: the engine needs a key, and there is none.
    """
    if backend.kind != "brave":
        return {"Accept": "application/json"}
    if not key:
        raise ToolError("Brave needs a key, and none is set", "Tell the user to set web_search_key.")
    return {"Accept": "application/json", "X-Subscription-Token": key}


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
    ran = await run_on_host((*command, query), b"", home, without_keys(os.environ), limit_s, most_bytes=_MOST_BYTES)
    if ran.is_cut:
        raise ToolError(f"{name} printed more than {_MOST_BYTES:,} bytes")
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
            title = _shortened(_line(each.get("title")), _TITLE_CHARS)
            yield WebResult(title or url, url, _shortened(snippet, _SNIPPET_CHARS))


def _line(value: object) -> str:
    text = html.unescape(_TAG.sub("", value[:5_000])) if isinstance(value, str) else ""
    return sanitize_line(" ".join(text.split()))


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
