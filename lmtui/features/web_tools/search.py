"""Searches: what a search engine or a program of the user's own is asked, and what is taken from its answer.

All of an answer is somebody else's text: each part becomes one short line without control characters.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from lmtui.core.errors import ToolError
from lmtui.core.hosts import SearchBackend, WebResult
from lmtui.core.sanitize import sanitize_line
from lmtui.paths import without_keys

if TYPE_CHECKING:
    from lmtui.features.web_tools.request import HttpAnswer

MOST_QUERY_CHARS = 400  # the limit of Brave
_COMMAND_S, _ENDING_S = 20.0, 2.0
_MOST_BYTES, _MOST_ERROR_BYTES = 1_000_000, 10_000
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
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            query,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=Path.home(),  # never the workspace, from which a program may take code
            env=without_keys(os.environ),
            start_new_session=True,
        )
    except OSError as error:
        raise ToolError(f"{name} of web_search could not be run: {error.strerror}", "Tell the user to correct it.") from error
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(limit_s):
            out, errors = await asyncio.gather(
                _read(process.stdout, _MOST_BYTES, partial(_kill, process)), _read(process.stderr, _MOST_ERROR_BYTES)
            )
            code = await process.wait()
    except TimeoutError as error:
        raise ToolError(f"{name} did not answer within {limit_s:g} s") from error
    finally:
        await _end(process)
    if len(out) > _MOST_BYTES:
        raise ToolError(f"{name} printed more than {_MOST_BYTES:,} bytes")
    if code:
        last = sanitize_line(errors.decode("utf-8", "replace").strip().rpartition("\n")[2])[:200]
        raise ToolError(f"{name} failed with exit code {code}{f': {last}' if last else ''}")
    return _printed(out.decode("utf-8", "replace"), name, most)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what still runs, and take what it wrote last: until then its end is not noticed."""
    _kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ENDING_S):
            for stream in filter(None, (process.stdout, process.stderr)):
                while await stream.read(65_536):
                    pass
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _read(stream: asyncio.StreamReader, most: int, on_more: Callable[[], None] = lambda: None) -> bytes:
    """Return what comes to its end, but not much more than so many bytes."""
    taken = bytearray()
    while piece := await stream.read(65_536):
        if len(taken) <= most:
            taken += piece
        else:
            on_more()
    return bytes(taken)


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
