"""Any server with the chat-completions API, through openai's async client.

The SDK carries the HTTP (pool, proxies, TLS, key); what comes back is parsed here, because the SDK takes a stream that was cut
for a whole one and throws at a bad line.  Its own retries are off: ours can be seen and stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import math
import re
import sys
import time
import uuid
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast
from urllib.request import getproxies

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.hosts import base_url
from lmtui.core.messages import ModelRequest, Priority, QueuedChunk, RetryChunk, SilenceChunk, StreamChunk, ToolCallFormat
from lmtui.core.servers import ServedModel, ServerFound, ServerKind
from lmtui.models.discovery import LOOK_LIMIT_S, look_at, model_of
from lmtui.models.endpoint import LOCAL_KEY, is_local
from lmtui.models.provider_errors import RetryPolicy, not_a_server, status_error, unreachable, with_retries
from lmtui.models.request_encoding import OPTIONAL_FIELDS, RequestWriter
from lmtui.models.servers.llama_cpp import SlotFiles
from lmtui.models.servers.server_client import background_task
from lmtui.models.stream_accumulator import SseDecoder, StreamAccumulator

if TYPE_CHECKING:
    from types import ModuleType

    import httpx2
    import openai


_MOST_IN_A_ROW = 8


def _load_sdk() -> None:
    """Load the SDK without a second transport that lmtui does not use: 10 MB and 0.1 s."""
    hides = {"openai", "aiohttp"}.isdisjoint(sys.modules)
    if hides:
        sys.modules["aiohttp"] = cast("ModuleType", None)  # makes the import fail
    try:
        importlib.import_module("openai")
    finally:
        if hides:
            del sys.modules["aiohttp"]


@dataclass(slots=True, eq=False)
class _Waiter:
    """A request that waits: whose it is, how urgent, and the future that is done when its turn comes."""

    owner: int
    urgency: Priority
    turn: asyncio.Future[None] = field(repr=False)


class Slots:
    """The slots of one endpoint.

    `count` is how many requests the server works on at once, `busy` how many run.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = max(1, count)
        self.busy = 0
        self._waiting: list[_Waiter] = []
        self._last_owner = -1
        self._in_a_row = 0

    @property
    def waiting(self) -> int:
        """Return how many requests are queued."""
        return len(self._waiting)

    def resize(self, count: int) -> None:
        """Take another number of slots; requests that run go on."""
        self.count = max(1, count)
        self._admit()

    def before(self, owner: int, urgency: Priority) -> int:
        """Return how many requests would be served before this one: those that run and hold every slot, and those ahead."""
        if self.busy < self.count and not self._waiting:
            return 0
        return self.busy + sum(each.urgency <= urgency for each in self._waiting if each.owner != owner)

    @asynccontextmanager
    async def take(self, owner: int, urgency: Priority) -> AsyncIterator[None]:
        """Hold a slot; waits for one.  `owner` tells conversations apart."""
        waiter = _Waiter(owner, urgency, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:  # its turn came in the moment of the cancel
                self._release()
            raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        self.busy -= 1
        self._admit()

    def _admit(self) -> None:
        """Give free slots to those whose turn it is."""
        while self._waiting and self.busy < self.count:
            waiter = min(self._waiting, key=self._order)  # of several the one that came first
            self._waiting.remove(waiter)
            self._in_a_row = self._in_a_row + 1 if waiter.owner == self._last_owner else 0
            self._last_owner = waiter.owner
            self.busy += 1
            waiter.turn.set_result(None)

    def _order(self, waiter: _Waiter) -> tuple[int, bool]:
        is_hot = waiter.owner == self._last_owner and self._in_a_row < _MOST_IN_A_ROW
        return (waiter.urgency, not is_hot)


_MANY_SLOTS = 8
_EMBED_S = 60.0
_MOST_EMBED_BYTES = 64_000_000
_MOST_NUMBERS = 16_384
Prepare = Callable[[], Awaitable[Mapping[str, object]]]


class OpenAICompatible:
    """A model server behind one address; implements `core.ports.Provider`.

    Args:
        url: root, `/v1` or full chat-completions address.
        key: sent as a bearer token; local servers take any.
        stall_timeout_s: silence after the first token that counts as a broken connection, before it that is told, or ends the
            request where nobody is there; 0: no limit.
        retry: how often and how long faults that pass are waited for.
        slots: how many requests the server works on at once; 0: as many as it tells, else one for a local server.
        context_tokens: the window of the model, used if the server does not report one; `windows` those of some by name.
    """

    def __init__(
        self,
        url: str,
        key: str = "",
        *,
        stall_timeout_s: float = 560.0,
        retry: RetryPolicy | None = None,
        slots: int = 0,
        context_tokens: int = 0,
        windows: Mapping[str, int] | None = None,
    ) -> None:
        self.url = base_url(url)
        self._key = key or LOCAL_KEY
        self._stall_timeout_s = stall_timeout_s
        self._retry = retry or RetryPolicy()
        self._writers: dict[int, RequestWriter] = {}
        self._client: openai.AsyncOpenAI | None = None
        self._slots_by_hand = slots
        self._context_tokens, self._windows = context_tokens, windows or {}
        self._extra: dict[str, object] = {}
        self._refused: set[str] = set()
        self._has_answered = False
        self.saves_prompts: bool | None = False
        self._only_model = ""  # where nothing else can be meant: LiteLLM rejects a request that names no model
        self.is_router = False  # one that loads a model when it is asked for, and tells how far that is
        self.slots = Slots(slots or self._usual_slots(""))

    @property
    def slot_count(self) -> int:
        """Return how many requests the server works on at once."""
        return self.slots.count

    def slot_files(self, model: str) -> SlotFiles:
        """Return the ways to save and restore what the server's slots hold."""
        return SlotFiles(self.url, self._key, model)

    def prefix_digest(self, request: ModelRequest, parts: int = 0) -> tuple[str, int]:
        """Return a digest of the tools and the first `parts` messages of a request (0: all) as sent, and their number."""
        return self._writer(request).prefix_digest(request, parts)

    async def stream(self, request: ModelRequest, prepare: Prepare | None = None) -> AsyncGenerator[StreamChunk, None]:
        owner = id(request.messages[0]) if request.messages else 0
        before = self.slots.before(owner, request.urgency)
        if before:
            yield QueuedChunk(before)
        async with self.slots.take(owner, request.urgency):
            more = await prepare() if prepare is not None else {}
            async with contextlib.aclosing(self._answer(request, more)) as pieces:
                async for piece in pieces:
                    self._has_answered = self._has_answered or not isinstance(piece, RetryChunk | SilenceChunk)
                    yield piece

    async def _answer(self, request: ModelRequest, more: Mapping[str, object]) -> AsyncGenerator[StreamChunk, None]:
        """Yield the pieces of an answer; a field that the server refuses is left out, in this request and all later ones."""
        request = request if request.model else replace(request, model=self._only_model)
        policy = self._retry if not self._has_answered else self._retry.for_known_server()
        extra = self._extra | dict(more)
        while True:
            body = self._writer(request).write(request, extra, without=self._refused)
            try:
                async with contextlib.aclosing(with_retries(partial(self._attempt, body, request), policy)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ProviderError as error:
                named = {name for name in (*OPTIONAL_FIELDS, *extra) if re.search(rf"\b{name}\b", str(error))}
                refused = (named or (set() if request.hold else set(extra))) - self._refused
                if error.fault not in (Fault.REJECTED, Fault.SERVER_ERROR) or not refused:
                    raise
                self._refused |= refused
                yield RetryChunk(1, 1, 0.0, f"sent again without {', '.join(sorted(refused))}: {error}")

    async def served(self, model: str) -> ServedModel | None:
        return self.learn(await look_at(self.url, self._key, LOOK_LIMIT_S), model)

    def learn(self, server: ServerFound | None, model: str) -> ServedModel | None:
        """Apply what a server reports, and return what it reports about a model."""
        found = model_of(server, model) if server is not None else None
        if server is not None and server.kind is ServerKind.OTHER and len(server.chat_models) == 1:
            self._only_model = server.chat_models[0].name
        if server is not None and found is not None:
            is_llama_cpp = found.server == ServerKind.LLAMA_CPP
            self._extra = {"return_progress": True} if is_llama_cpp else {}
            self.saves_prompts = server.saves_prompts if is_llama_cpp else False
            self.is_router = is_llama_cpp and server.can_load
        if not self._slots_by_hand and server is not None:
            told = found.slots if found else max((each.slots for each in server.models), default=0)
            self.slots.resize(told or self._usual_slots(str(server.kind)))
        window_tokens = self._windows.get(model, self._context_tokens)
        if window_tokens and not (found and found.window_tokens):
            return replace(found or ServedModel(model), window_tokens=window_tokens)
        return found

    def _usual_slots(self, kind: str) -> int:
        """Return how many requests are sent at once where the server does not tell: one to a local one, which has one GPU."""
        is_single = kind in (ServerKind.LM_STUDIO, ServerKind.OLLAMA, ServerKind.LLAMA_CPP) or is_local(self.url)
        return 1 if is_single and kind != ServerKind.VLLM else _MANY_SLOTS

    async def embed(self, model: str, texts: Sequence[str]) -> list[array[float]]:
        """Return the vectors of some texts, of one size; what a session asks comes first.

        Raises:
            ProviderError: the server cannot make them, does not answer in time, or answers with something else.
        """
        body = json.dumps({"model": model, "input": list(texts), "encoding_format": "float"}).encode()
        try:
            async with asyncio.timeout(_EMBED_S), self.slots.take(id(self), Priority.BACKGROUND):
                data = bytearray()
                async with contextlib.aclosing(self._chunks(body, model, "/embeddings")) as chunks:
                    async for chunk in chunks:
                        data += chunk
                        if len(data) > _MOST_EMBED_BYTES:
                            break
        except TimeoutError as error:
            raise ProviderError(Fault.TIMEOUT, f"{self.url} made no vectors within {_EMBED_S:.0f} s") from error
        return await asyncio.to_thread(read_vectors, self.url, bytes(data), len(texts))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _writer(self, request: ModelRequest) -> RequestWriter:
        """Return the writer of this conversation, told apart by its first message (the same object through a session)."""
        first = id(request.messages[0]) if request.messages else 0
        if first not in self._writers and len(self._writers) >= 64:
            self._writers.clear()
        return self._writers.setdefault(first, RequestWriter())

    async def _attempt(self, body: bytes, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        form = ToolCallFormat.SCHEMA if request.hold else request.call_form
        tools = (*request.tools, *request.hidden)
        assembler = StreamAccumulator(lambda: f"call_{uuid.uuid4().hex[:12]}", time.monotonic, tools, form)
        async with contextlib.aclosing(self._events(body, request, assembler)) as events:
            async for event in events:
                for piece in [event] if isinstance(event, SilenceChunk) else assembler.feed(event):
                    yield piece
        pieces, completion = assembler.finish()
        for piece in (*pieces, completion):
            yield piece

    async def _events(
        self, body: bytes, request: ModelRequest, assembler: StreamAccumulator
    ) -> AsyncGenerator[str | SilenceChunk, None]:
        """Yield the data of each event, and before the answer begins a piece each time that the silence reaches the limit.

        Keep-alive lines do not end that silence.

        Raises:
            ProviderError: it is too long in the middle of an answer, or where nobody is there who can stop the wait.
        """
        decoder, limit_s = SseDecoder(), self._stall_timeout_s
        heard_s = told_s = time.monotonic()
        async with contextlib.aclosing(self._chunks(body, request.model, "/chat/completions")) as chunks:
            while not assembler.is_over:
                async with background_task(anext(chunks, None)) as reading:
                    left_s = max(0.0, told_s + limit_s - time.monotonic()) if limit_s > 0 else None
                    while not (await asyncio.wait({reading}, timeout=left_s))[0]:
                        if assembler.has_output or not request.is_attended:
                            told = f"{self.url} has not answered for {limit_s:g} s"
                            hint = "If the model needs longer to read the prompt, raise LLM_TIMEOUT (0: no limit)."
                            if assembler.has_output:
                                told = f"{self.url} has said nothing for {limit_s:g} s in the middle of an answer"
                                hint = "LLM_TIMEOUT sets this limit (0: no limit)."
                            raise ProviderError(Fault.TIMEOUT, told, f"Check the server. {hint}")
                        told_s, left_s = time.monotonic(), limit_s
                        yield SilenceChunk(told_s - heard_s)
                if (chunk := reading.result()) is None:
                    break
                events = decoder.feed(chunk)
                for event in events:
                    yield event
                if events or assembler.has_output:
                    heard_s = told_s = time.monotonic()
        for event in decoder.finish():
            yield event

    async def _chunks(self, body: bytes, model: str, path: str) -> AsyncGenerator[bytes, None]:
        """Send a request and yield the bytes of what answers."""
        import httpx2  # noqa: PLC0415

        response = await self._open(body, model, path)
        try:
            if "html" in (kind := response.headers.get("content-type", "")):
                raise not_a_server(self.url, kind, "a web page")
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx2.HTTPError as error:
            told = f"the connection to {self.url} broke in the middle of an answer"
            raise ProviderError(
                Fault.CUT, told, "The server may have stopped or run out of memory; look at its log."
            ) from error
        finally:
            await response.aclose()

    async def _open(self, body: bytes, model: str, path: str) -> httpx2.Response:
        _load_sdk()
        import httpx2  # noqa: PLC0415  (half a second of imports belongs to the first request, not to start-up)
        import openai  # noqa: PLC0415

        try:
            stream: openai.AsyncStream[object] = await self._sdk().post(
                path,
                cast_to=object,
                content=body,
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        except openai.APIStatusError as error:
            kind = error.response.headers.get("content-type", "")
            body_text = self._without_key(error.response.text)
            problem = status_error(self.url, model, error.status_code, body_text, kind)
            problem.retry_after_s = _retry_after_s(error.response.headers.get("retry-after"))
            raise problem from error
        except openai.APIConnectionError as error:
            raise unreachable(self.url, _cause(error)) from error
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ProviderError(
                Fault.REJECTED, f"no request could be sent to {self.url}: {self._without_key(str(error))}"
            ) from error
        return stream.response

    def _without_key(self, text: str) -> str:
        """Return a text of the server's or the SDK's that shows no key."""
        return text if self._key == LOCAL_KEY else text.replace(self._key, "•••")

    def _sdk(self) -> openai.AsyncOpenAI:
        if self._client is None:
            import httpx2  # noqa: PLC0415
            import openai  # noqa: PLC0415

            timeout = httpx2.Timeout(None, connect=10.0, write=60.0)
            self._client = openai.AsyncOpenAI(
                base_url=self.url,
                api_key=self._key,
                max_retries=0,
                timeout=timeout,
                organization="",
                project="",
                # a redirect would carry the whole conversation to a server that nobody named
                http_client=openai.DefaultAsyncHttpxClient(
                    follow_redirects=False,
                    timeout=timeout,
                    # Certificates take 30 ms of the event loop to load; plain http without a proxy has none to check.
                    verify=not self.url.startswith("http:") or bool(getproxies()),
                ),
            )
        return self._client


def read_vectors(url: str, data: bytes, count: int) -> list[array[float]]:
    """Return the vectors of an answer to `/v1/embeddings`, in the order of the texts.

    Raises:
        ProviderError: it is something else, they are not as many, or of several sizes.
    """
    try:
        found = sorted(json.loads(data)["data"], key=lambda each: int(each["index"]))
        vectors = [array("d", each["embedding"]) for each in found]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ProviderError(Fault.GARBAGE, f"{url} answered with something that is not a list of vectors") from error
    sizes = {len(each) for each in vectors}
    is_finite = all(math.isfinite(number) for each in vectors for number in each)
    if len(vectors) != count or len(sizes) != 1 or not 0 < min(sizes) <= _MOST_NUMBERS or not is_finite:
        raise ProviderError(Fault.GARBAGE, f"{url} answered with vectors that cannot be used")
    return vectors


def _retry_after_s(value: str | None) -> float:
    """Return the seconds of a Retry-After header (RFC 9110 §10.2.3; the date form counts as unknown), at most 10 minutes."""
    try:
        told_s = float(value or 0)
    except ValueError:
        return 0.0
    return min(told_s, 600.0) if told_s > 0 else 0.0  # "nan" is no number to wait for


def _cause(error: BaseException) -> str:
    """Return the innermost reason of a failed connection, in words."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip()[:120] or type(error).__name__
