"""A pool of model servers with load balancing and failover.

A conversation stays on the server that has its prompt cached.  A new one goes to a server that has the model loaded, then to
the one with the shortest queue for its slots.  A server that fails gets no requests during a cooldown, or until a
probe succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from array import array
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lmtui.core.errors import ContextOverflow, Fault, ProviderError
from lmtui.core.hosts import is_same_server
from lmtui.core.messages import Completion, Message, ModelRequest, RetryChunk, StreamChunk, ToolCallFormat
from lmtui.core.servers import NO_ANSWER, PoolRow, ServedModel, ServerFound
from lmtui.models.discovery import USUAL_PORTS, look_at, model_of
from lmtui.models.endpoint import is_reachable
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy, unreachable, with_retries
from lmtui.models.servers.server_client import background_task

_MOST_ASSIGNED = 4096
_PROBE_EVERY_S, _PROBE_AGAIN_S = 30.0, 2.0
_PROBE_LIMIT_S, _SERVER_LIMIT_S = 5.0, 4.5
_IDLE_CHECK_S = 15.0
_FIRST_COOLDOWN_S, _LONGEST_COOLDOWN_S = 2.0, 60.0
_CLEARED_BY_PROBE = frozenset({Fault.UNREACHABLE, Fault.CUT, Fault.LOADING})
_UNSUPPORTED = frozenset({Fault.UNKNOWN_MODEL, Fault.NO_TOOLS})
"""Faults that mean a missing feature on a server that is otherwise healthy."""


@dataclass(slots=True, eq=False)
class PoolMember:
    """One server of a pool.

    `found` is the result of the last probe; it gets no requests
    until `down_until_s` because of `error`.  `windows` are the windows that rejections revealed; `unsupported` are features
    that it rejected, with the model.  `active` is the number of requests in flight.
    """

    provider: OpenAICompatible
    key: str = ""
    found: ServerFound | None = None
    answered: int = 0
    tokens: int = 0
    decode_s: float = 0.0
    error: ProviderError | None = None
    down_until_s: float = 0.0
    cooldown_s: float = field(default=_FIRST_COOLDOWN_S, repr=False)
    windows: dict[str, int] = field(default_factory=dict)
    unsupported: set[tuple[Fault, str]] = field(default_factory=set)
    active: int = 0

    @property
    def url(self) -> str:
        """Return the address."""
        return self.provider.url

    @property
    def is_lost(self) -> bool:
        """Tell whether the last request or probe failed."""
        return self.error is not None and self.error.fault in _CLEARED_BY_PROBE

    def load(self) -> float:
        """Return its load with one more request, relative to its slots."""
        slots = self.provider.slots
        return (max(slots.busy + slots.waiting, self.active) + 1) / slots.count

    def local_name(self, model: str) -> str | None:
        """Return its name for a model, None if it lacks the model; a server that lists no models may have any."""
        if not model or self.found is None or not self.found.models or model_of(self.found, model) is not None:
            return model
        alike = [each.name for each in self.found.models if normalized_name(each.name) == normalized_name(model)]
        return alike[0] if len(alike) == 1 else None

    def offers(self, model: str) -> bool:
        """Tell whether it may have a model."""
        return self.local_name(model) is not None and (Fault.UNKNOWN_MODEL, model) not in self.unsupported

    def takes_tools(self, request: ModelRequest) -> bool:
        """Tell whether it supports the tool calls of a request."""
        if not request.tools or request.call_form is not ToolCallFormat.NATIVE:
            return True
        served = self.served(request.model)
        return (Fault.NO_TOOLS, request.model) not in self.unsupported and (served is None or served.has_tools is not False)

    def served(self, model: str) -> ServedModel | None:
        """Return what it reports about a model, with the window that a rejection revealed."""
        name = self.local_name(model)
        return self._with_window(model_of(self.found, name) if self.found is not None and name is not None else None, model)

    def learn(self, model: str) -> ServedModel | None:
        """Let the provider learn what is known of a model, and return that."""
        name = self.local_name(model)
        return self._with_window(self.provider.learn(self.found, model if name is None else name), model)

    def _with_window(self, served: ServedModel | None, model: str) -> ServedModel | None:
        known = self.windows.get(model, 0)
        return replace(served, window_tokens=min(known, served.window_tokens or known)) if served and known else served


def normalized_name(model: str) -> str:
    """Return the normalized name of a model: `qwen/Qwen3-8B` and `qwen3:8b` are the same model."""
    name = model.lower().rpartition("/")[2].removesuffix(":latest").removesuffix(".gguf")
    return re.sub(r"[^a-z0-9.]+", "-", name)


@dataclass(slots=True, eq=False)
class PoolHost:
    """A host whose servers on the usual ports join the pool; `make` creates a member from an address, without a key."""

    name: str
    make: Callable[[str], PoolMember]


class ServerPool:
    """Implements `core.ports.Provider` over several servers.

    Args:
        members: should not retry on their own, so that failover is fast.
        retry: policy for retrying the whole pool.
        now: returns seconds of a monotonic clock.
        hosts: where to discover more servers.
        idle_check_s: how long a server may be silent before its connection is checked.
    """

    def __init__(
        self,
        members: Sequence[PoolMember],
        retry: RetryPolicy | None = None,
        now: Callable[[], float] = time.monotonic,
        hosts: Sequence[PoolHost] = (),
        idle_check_s: float = _IDLE_CHECK_S,
    ) -> None:
        self.members, self.hosts = tuple(members), tuple(hosts)
        self._retry = retry or RetryPolicy()
        self._now = now
        self._idle_check_s = idle_check_s
        self._assigned: OrderedDict[Hashable, tuple[PoolMember, Message | None]] = OrderedDict()
        self._probed_s = -math.inf
        self._has_probed = False
        self._probing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        first = min(self.members, key=lambda each: each.down_until_s > self._now(), default=None)
        return first.url if first is not None else self.hosts[0].name

    @property
    def slot_count(self) -> int:
        """Return the number of slots of all available servers."""
        return sum(each.provider.slots.count for each in self._up()) or 1

    def merged(self) -> ServerFound | None:
        """Return the pool as one server with each model once; None if nothing is known yet."""
        known = [each.found for each in self._up() if each.found is not None and each.found.models]
        models: dict[str, ServedModel] = {}
        for model in (each for server in known for each in server.models):
            before = models.get(normalized_name(model.name))
            if before is None or (model.is_loaded and not before.is_loaded):
                models[normalized_name(model.name)] = model
        return ServerFound(known[0].kind, self.url, tuple(models.values())) if known else None

    def member_at(self, url: str) -> PoolMember | None:
        """Return the server at an address, None if it does not belong to the pool."""
        return next((each for each in self.members if is_same_server(each.url, url)), None)

    def rows(self) -> Sequence[PoolRow]:
        """Return a row for each server, and for each host without one; starts a probe of lost servers after their cooldown."""
        if any(each.is_lost and each.down_until_s <= self._now() for each in self.members):
            self._begin_look(_PROBE_AGAIN_S)
        why = f"no model server on its ports {', '.join(map(str, USUAL_PORTS))}" if self._has_probed else "not checked yet"
        empty = [each.name for each in self.hosts if not any(map(self.member_at, host_addresses(each.name)))]
        return [*map(self._row, self.members), *(PoolRow(name, is_up=False, problem=why) for name in empty)]

    def _row(self, member: PoolMember) -> PoolRow:
        slots, is_up = member.provider.slots, member.down_until_s <= self._now() and not member.is_lost
        models = member.found.chat_models if member.found is not None else ()
        return PoolRow(
            member.url,
            is_up,
            slots.count,
            slots.busy,
            slots.waiting,
            member.answered,
            round(member.tokens / member.decode_s, 1) if member.decode_s else 0.0,
            "" if is_up else _short(member.error, member.url),
            next((each.name for each in models if each.is_loaded), models[0].name if len(models) == 1 else ""),
        )

    async def stream(self, request: ModelRequest, conversation: str = "") -> AsyncGenerator[StreamChunk, None]:
        """Yield the chunks of one answer; a `RetryChunk` means that another server restarts it.

        `conversation` identifies the conversation; by default its first message does.

        Raises:
            ProviderError: the request is rejected, or no server answers.
        """
        key = conversation or (id(request.messages[0]) if request.messages else 0)
        policy = self._retry.for_known_server() if any(each.answered for each in self.members) else self._retry
        async with contextlib.aclosing(with_retries(partial(self._attempt, request, key), policy)) as pieces:
            async for piece in pieces:
                yield piece

    async def _attempt(self, request: ModelRequest, key: Hashable) -> AsyncGenerator[StreamChunk, None]:
        """Try servers until one answers."""
        await self.look()
        tried: list[PoolMember] = []
        window = 0
        member = self._choose(request, key, tried)
        while member is not None:
            tried.append(member)
            is_last = self._choose(request, key, tried) is None
            try:
                async with contextlib.aclosing(self._ask(member, request, is_last=is_last)) as pieces:
                    async for piece in pieces:
                        yield piece
            except ProviderError as error:
                if isinstance(error, ContextOverflow):
                    window = max(window, error.window_tokens, 1)
                self._record_error(member, request, error)
                following = self._choose(request, key, tried, window)
                if following is None:
                    raise self._final_error(error, request, tried) from error
                yield RetryChunk(len(tried), len(self.members) - 1, 0.0, f"{error}; trying {following.url}")
                member = following
            else:
                self._record_success(member, request, key)
                return
        raise unreachable(self.url, "no server of the pool answers")

    async def _ask(self, member: PoolMember, request: ModelRequest, *, is_last: bool) -> AsyncGenerator[StreamChunk, None]:
        """Send the request to one server; unless it is the last one, the timeout also applies to attended sessions.

        Raises:
            ProviderError: the server fails, or no longer accepts connections.
        """
        name = member.local_name(request.model)
        asked = replace(request, model=request.model if name is None else name, is_attended=request.is_attended and is_last)
        member.active += 1
        try:
            async with contextlib.aclosing(member.provider.stream(asked)) as pieces:
                while (piece := await self._next(member, pieces)) is not None:
                    if isinstance(piece, Completion):
                        member.tokens += piece.usage.completion_tokens if piece.usage else 0
                        member.decode_s += piece.decode_s
                    yield piece
        finally:
            member.active -= 1

    async def _next(self, member: PoolMember, pieces: AsyncGenerator[StreamChunk, None]) -> StreamChunk | None:
        """Return the next chunk, None at the end; fail if a silent server no longer accepts connections."""
        missed = 0
        async with background_task(anext(pieces, None)) as step:
            while not (await asyncio.wait({step}, timeout=self._idle_check_s))[0]:
                missed = 0 if await is_reachable(member.url) else missed + 1
                if missed == 2 and not step.done():
                    raise unreachable(member.url, "it no longer accepts connections")
        return step.result()

    def _choose(
        self, request: ModelRequest, key: Hashable, tried: Collection[PoolMember], window: int = 0
    ) -> PoolMember | None:
        """Return the server for a request: the one of its conversation, else the least loaded one that has the model loaded.

        With a `window`, only servers with a larger one qualify.
        """
        model = request.model
        left = [each for each in self.members if each not in tried]
        if window:
            left = [each for each in left if (served := each.served(model)) is not None and served.window_tokens > window]
        if any(each.offers(model) for each in self.members):
            left = [each for each in left if each.offers(model)]
        left = [each for each in left if each.takes_tools(request)] or left
        fitting = [each for each in left if each.down_until_s <= self._now()] or left
        kept = self._assigned.get(key, (None, None))[0]
        if kept in fitting:
            self._assigned.move_to_end(key)
            return kept
        warm = [each for each in fitting if (has := each.served(model)) is not None and has.is_loaded is not False]
        return min(fitting, key=lambda each: (each not in warm, each.load(), each.answered), default=None)

    def _record_success(self, member: PoolMember, request: ModelRequest, key: Hashable) -> None:
        member.answered += 1
        member.error, member.down_until_s, member.cooldown_s = None, 0.0, _FIRST_COOLDOWN_S
        # keeps the message alive, so that its id is not reused
        self._assigned[key] = member, request.messages[0] if request.messages and isinstance(key, int) else None
        self._assigned.move_to_end(key)
        while len(self._assigned) > _MOST_ASSIGNED:
            self._assigned.popitem(last=False)

    def _record_error(self, member: PoolMember, request: ModelRequest, error: ProviderError) -> None:
        """Record an error of a server.

        Raises:
            ProviderError: the request is at fault, so another server would reject it too.
        """
        if error.fault is Fault.REJECTED:
            raise error
        if isinstance(error, ContextOverflow):
            if error.window_tokens:
                member.windows[request.model] = error.window_tokens
        elif error.fault in _UNSUPPORTED:
            member.unsupported.add((error.fault, request.model))
        else:
            self._fail(member, error)

    def _fail(self, member: PoolMember, error: ProviderError) -> None:
        member.error = error
        cooldown_s = _LONGEST_COOLDOWN_S if error.fault is Fault.TIMEOUT else member.cooldown_s
        member.down_until_s = self._now() + max(error.retry_after_s, cooldown_s)
        member.cooldown_s = min(2 * member.cooldown_s, _LONGEST_COOLDOWN_S)

    def _final_error(self, error: ProviderError, request: ModelRequest, tried: Collection[PoolMember]) -> ProviderError:
        """Return the error that ends an attempt, with the shortest wait, and whether other servers lack the model."""
        if error.retry_after_s:
            error.retry_after_s = max(0.1, min(each.down_until_s for each in tried) - self._now())
        if isinstance(error, ContextOverflow) or len(tried) == len(self.members) or not request.model:
            return error
        told = f"{error}; no other server of the pool has the model {request.model!r}"
        return ProviderError(error.fault, told, error.hint, error.retry_after_s)

    def _up(self) -> list[PoolMember]:
        return [each for each in self.members if each.down_until_s <= self._now()]

    async def look(self, *, is_now: bool = False) -> None:
        """Probe the servers periodically; wait for the first probe, or for each with `is_now`, but only a few seconds."""
        self._begin_look(_PROBE_AGAIN_S if is_now else _PROBE_EVERY_S)
        if self._probing is not None and (is_now or not self._has_probed):
            await asyncio.wait({self._probing}, timeout=_PROBE_LIMIT_S)
            self._has_probed = True

    def _begin_look(self, every_s: float) -> None:
        is_due = self._probing is None or (self._probing.done() and self._now() - self._probed_s >= every_s)
        if is_due:
            self._probed_s = self._now()
            self._probing = asyncio.get_running_loop().create_task(self._probe_all())

    async def _probe_all(self) -> None:
        _ = await asyncio.gather(*map(self._probe, self.members), *map(self._discover, self.hosts))

    async def _probe(self, member: PoolMember) -> None:
        found = await look_at(member.url, member.key, _SERVER_LIMIT_S)
        if found is None:
            if not member.provider.slots.busy and not await is_reachable(member.url):
                self._fail(member, unreachable(member.url, NO_ANSWER))
            return
        if member.found is not None and member.found.models != found.models:
            member.unsupported.clear()
            member.windows.clear()
        member.found = found
        _ = member.provider.learn(found, "")
        if found.models and member.is_lost:
            member.error, member.down_until_s = None, 0.0

    async def _discover(self, host: PoolHost) -> None:
        """Discover new servers of a host."""
        new = [url for url in host_addresses(host.name) if self.member_at(url) is None]
        for found in await asyncio.gather(*(look_at(url, "", _SERVER_LIMIT_S) for url in new)):
            if found is not None:
                member = host.make(found.url)
                member.found = found
                _ = member.provider.learn(found, "")
                self.members += (member,)

    async def served(self, model: str) -> ServedModel | None:
        await self.look(is_now=True)
        found = [served for each in self._up() if (served := each.learn(model)) is not None]
        if not found:
            return None
        windows = [each.window_tokens for each in found if each.window_tokens]
        can_see = False if any(each.has_vision is False for each in found) else found[0].has_vision
        has_tools = True if any(each.has_tools for each in found) else found[0].has_tools
        return replace(
            found[0],
            window_tokens=min(windows, default=0),
            slots=self.slot_count,
            has_vision=can_see,
            has_tools=has_tools,
            drops_tools=all(each.drops_tools for each in found),
        )

    async def embed(self, model: str, texts: Sequence[str]) -> list[array[float]]:
        """Return vectors from the first server that has the model; see `OpenAICompatible.embed`."""
        await self.look()
        if not (up := self._up() or self.members):
            raise unreachable(self.url, "no server of the pool answers")
        return await next((each for each in up if each.offers(model)), up[0]).provider.embed(model, texts)

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait({self._probing})
        for each in self.members:
            await each.provider.close()


def host_addresses(name: str) -> list[str]:
    """Return the addresses where a host may have servers."""
    return [f"http://{name}:{port}" for port in USUAL_PORTS]


def _short(error: ProviderError | None, url: str) -> str:
    """Return an error without the address, which the list already shows."""
    told = str(error or "").replace(f" at {url}", "").removeprefix(f"{url} ")
    before, _, inner = told.partition("no model server answers (")
    return told if before or not inner else inner.removesuffix(")")
