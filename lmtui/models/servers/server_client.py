"""Asks a server's own endpoints for JSON, within limits of time and size.  What a server does wrong is a reply, no error.

A request to load waits until the memory of an unloaded model has come back: one that comes too early is refused or swaps.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psutil

from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import LoadProgress, ServedModel, ServerFound
from lmtui.models.endpoint import LOCAL_KEY

_DIGEST_CHARS = 16


T = TypeVar("T")


def _of(value: Any, key: str, kind: type[T]) -> T | None:
    """Return what an object has under a key, if it is of that kind."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None


def items(value: Any, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list inside an object."""
    return [each for each in _of(value, key, list) or () if isinstance(each, dict)]


def has_list(value: Any, key: str) -> bool:
    """Tell whether an object has a list (an empty one may be null) under a key."""
    return isinstance(value, dict) and key in value and isinstance(value[key], list | None)


def part(value: Any, key: str) -> dict[str, Any]:
    """Return an object inside an object, an empty one where there is none."""
    return _of(value, key, dict) or {}


def number(value: Any, *keys: str) -> int:
    """Return the first positive whole number under any of the keys, else 0."""
    found = (_of(value, key, int) for key in keys)
    return next((each for each in found if each and each > 0 and not isinstance(each, bool)), 0)


def text(value: Any, key: str) -> str:
    """Return a text on one line, without control sequences; an empty one where there is none."""
    return sanitize_line(raw_text(value, key))


def raw_text(value: Any, key: str) -> str:
    """Return a text as it is."""
    return _of(value, key, str) or ""


def flag(value: Any, key: str) -> bool | None:
    """Return a truth value, None where it is not told."""
    return _of(value, key, bool)


def words(value: Any, key: str) -> list[str]:
    """Return the texts of a list inside an object."""
    return [each for each in _of(value, key, list) or () if isinstance(each, str)]


def digest(template: str) -> str:
    """Return a short digest of a chat template, empty for none."""
    return hashlib.sha256(template.encode()).hexdigest()[:_DIGEST_CHARS] if template else ""


MAX_REPLY_BYTES = 4_000_000
_START_CHARS = 2_000
_NOTHING_LISTENS = "nothing listens there"
_CONNECTED = "connection.connect_tcp.complete"


@dataclass(frozen=True, slots=True)
class ServerReply:
    """What came back.  `status` 0: no HTTP answer came, `why` says why not; `value` is the JSON, `start` the first text."""

    status: int = 0
    value: Any = None
    content_type: str = ""
    start: str = ""
    why: str = ""

    @property
    def ok(self) -> Any:
        """Return the JSON of a good answer, else None."""
        return self.value if self.status == 200 else None

    @property
    def is_key_refused(self) -> bool:
        """Tell whether an API refused the key; a web page behind a login is none."""
        told = isinstance(self.value, dict) and any(name in self.value for name in ("error", "detail", "message"))
        return self.status in (401, 403) and told

    @property
    def is_there(self) -> bool:
        """Tell whether something is at the address at all."""
        return self.status > 0 or self.why not in ("", _NOTHING_LISTENS)


class ServerClient:
    """The connections to one server; an async context manager.  It follows no redirects and uses no proxies."""

    def __init__(self, root: str, key: str = "") -> None:
        import httpx2  # noqa: PLC0415  (not needed before the first look)

        self._root = root
        self._refused = (httpx2.ConnectError, httpx2.InvalidURL)
        self._broken = (httpx2.HTTPError, httpx2.StreamError)
        self._http = httpx2.AsyncClient(
            timeout=None,  # every request has its own limit
            headers={"Authorization": f"Bearer {key or LOCAL_KEY}"},
            trust_env=False,
            # Certificates take 60 ms of the event loop to load; plain http has none to check.
            verify=not root.startswith("http:"),
        )

    async def __aenter__(self) -> ServerClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def get(self, path: str, limit_s: float) -> ServerReply:
        """Return what an endpoint answers."""
        return await self._ask("GET", path, None, limit_s)

    async def post(self, path: str, body: dict[str, object], limit_s: float) -> ServerReply:
        """Return what an endpoint answers to a body."""
        return await self._ask("POST", path, body, limit_s)

    async def events(self, path: str) -> AsyncGenerator[Any, None]:
        """Yield the JSON of server-sent events until the server or the caller ends it; a server without them gives none."""
        with contextlib.suppress(*self._refused, *self._broken):
            async with self._http.stream("GET", self._root + path) as response:
                async for line in response.aiter_lines():
                    if response.status_code == 200 and line.startswith("data:"):
                        yield _json(line.removeprefix("data:").encode())

    async def _ask(self, method: str, path: str, body: dict[str, object] | None, limit_s: float) -> ServerReply:
        url = path if "://" in path else self._root + path
        data = bytearray()
        done: set[str] = set()

        async def note(step: str, _: object) -> None:
            done.add(step)

        try:
            traced = {"trace": note}
            async with asyncio.timeout(limit_s), self._http.stream(method, url, json=body, extensions=traced) as response:
                async for part in response.aiter_bytes():
                    data += part
                    if len(data) > MAX_REPLY_BYTES:
                        break
        except self._refused:
            return ServerReply(why=_NOTHING_LISTENS)
        except TimeoutError:
            is_there = any(step == _CONNECTED or not step.startswith("connection.") for step in done)  # or one of before serves
            return ServerReply(why=f"no complete response within {limit_s:.1f} s" if is_there else _NOTHING_LISTENS)
        except self._broken as error:
            return ServerReply(why=f"it speaks no proper HTTP ({type(error).__name__})")
        start = bytes(data[:_START_CHARS]).decode("utf-8", "replace")
        return ServerReply(response.status_code, _json(data), response.headers.get("content-type", ""), start)


def _json(data: bytes | bytearray) -> Any:
    if len(data) > MAX_REPLY_BYTES:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


LOAD_LIMIT_S = 3600.0
UNLOAD_LIMIT_S = 60.0
TICK_S = 0.5


@contextlib.asynccontextmanager
async def background_task(work: Awaitable[T]) -> AsyncIterator[asyncio.Future[T]]:
    """Run something next to what is done inside; at the end it is given up."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def passing(task: asyncio.Task[Any], text: str, tick_s: float) -> AsyncGenerator[LoadProgress, None]:
    """Tell the time until a task is done; closed before that, it gives the task up."""
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        while not task.done():
            yield LoadProgress(f"{text}, {clock() - started:.0f} s")
            _ = await asyncio.wait([task], timeout=tick_s)
    finally:
        task.cancel()
        await asyncio.wait({task})


def loaded(window_tokens: int, asked_tokens: int = 0, name: str = "") -> LoadProgress:
    """Return the last word on a load: what window is served, and whether that is what was asked for."""
    as_name = f" as {name}" if name else ""
    if not window_tokens:
        return LoadProgress(f"loaded{as_name}", 1.0, name=name)
    instead = f", not {asked_tokens:,}" if asked_tokens and window_tokens != asked_tokens else ""
    return LoadProgress(f"loaded{as_name}, window {window_tokens:,}{instead}", 1.0, name=name)


_GIB = 1024**3
_NOISE_BYTES = 64 * 1024**2
_SHARE = 0.75  # of the size of what went that has to come back
_MAX_SWAP_BYTES = 512 * 1024**2  # that others may lose to the swap meanwhile


@dataclass(frozen=True, slots=True)
class MemoryGate:
    """The limits of the wait: at most `limit_s`, and no longer than `steady_s` without anything coming back.

    What was on a graphics card never comes back here: then the second limit ends the wait.
    It also ends when the swap grows.
    """

    available: Callable[[], int] = lambda: int(psutil.virtual_memory().available)
    swapped: Callable[[], int] = lambda: int(psutil.swap_memory().used)
    limit_s: float = 60.0
    steady_s: float = 10.0
    tick_s: float = 0.25

    async def wait(self, before_bytes: int, freed_bytes: int) -> AsyncGenerator[LoadProgress, None]:
        """Wait after an unload; `before_bytes` was available before it, `freed_bytes` is the size of what went."""
        clock = asyncio.get_running_loop().time
        wanted = before_bytes + int(freed_bytes * _SHARE)
        started = changed = clock()
        most, swapped = self.available(), self.swapped()
        while freed_bytes and most < wanted:
            if clock() - started >= self.limit_s or clock() - changed >= self.steady_s:
                return
            if self.swapped() - swapped > _MAX_SWAP_BYTES:
                yield LoadProgress("swap use is growing; stopped waiting for memory")
                return
            yield LoadProgress(f"waiting for memory: {most / _GIB:.1f} of {wanted / _GIB:.1f} GiB are free")
            await asyncio.sleep(self.tick_s)
            now = self.available()
            if now > most + _NOISE_BYTES:
                most, changed = now, clock()


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A model of a server that is to be loaded; `window_tokens` 0 leaves the window to the server.

    `tick_s` is how often progress is told, `gate` what waits until memory has come back.
    """

    server: ServerFound
    model: ServedModel
    window_tokens: int = 0
    one_model: bool = False
    tick_s: float = TICK_S
    gate: MemoryGate = field(default_factory=MemoryGate)
