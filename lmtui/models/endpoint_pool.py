"""Several model servers as one: each request goes to the server that can answer it first, and to another if that one fails.

A conversation stays where its prompt is cached.  A new one goes where the model is loaded, then where the queue is shortest for
the server's slots and weight.  A server that fails is left alone for a while, and asked again by looking whether it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import Completion, ModelRequest, RetryChunk, StreamChunk
from lmtui.core.servers import PoolRow, ServedModel, ServerFound
from lmtui.models.discovery import known_server, model_of
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy, with_retries

_MOST_OWNERS = 4096
_LOOK_EVERY_S = 30.0
_LOOK_LIMIT_S = 5.0
_FIRST_REST_S, _LONGEST_REST_S = 2.0, 60.0
_SAME_EVERYWHERE = frozenset({Fault.REJECTED, Fault.NO_TOOLS, Fault.OVERFLOW})
"""Faults that lie in the request: another server would answer the same."""


@dataclass(slots=True, eq=False)
class PoolMember:
    """One server of a pool.

    `weight` is how fast it is compared to the others (1.0 is usual).  `found` is what it told when it was looked at last; it
    rests until `rests_until_s` because of `problem`.
    """

    provider: OpenAICompatible
    key: str = ""
    weight: float = 1.0
    found: ServerFound | None = None
    answered: int = 0
    tokens: int = 0
    decode_s: float = 0.0
    problem: str = ""
    rests_until_s: float = 0.0
    rest_s: float = field(default=_FIRST_REST_S, repr=False)

    @property
    def url(self) -> str:
        """Return the address."""
        return self.provider.url

    def load(self) -> float:
        """Return how many requests it has for each of its slots and its weight, with one more."""
        slots = self.provider.slots
        return (slots.busy + slots.waiting + 1) / (slots.count * self.weight)

    def offers(self, model: str) -> bool:
        """Tell whether it may have a model; one that lists none may."""
        return self.found is None or not self.found.models or self.served(model) is not None

    def served(self, model: str) -> ServedModel | None:
        """Return what it tells of a model."""
        return model_of(self.found, model) if self.found is not None else None

    def is_warm(self, model: str) -> bool:
        """Tell whether it has a model loaded, as far as it says."""
        served = self.served(model)
        return served is not None and served.is_loaded is not False


class ServerPool:
    """Implements `core.ports.Provider` over several servers.

    Args:
        members: at least one; their own retries are few, so that another server is asked soon.
        retry: how often all of them are tried.
        now: returns seconds of a monotonic clock.
    """

    def __init__(
        self, members: Sequence[PoolMember], retry: RetryPolicy | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.members = tuple(members)
        self._retry = retry or RetryPolicy()
        self._now = now
        self._owners: OrderedDict[int, PoolMember] = OrderedDict()
        self._looked_s = -_LOOK_EVERY_S
        self._looking: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Return the address of the first server that answers."""
        return min(self.members, key=lambda each: each.rests_until_s > self._now()).url

    @property
    def slot_count(self) -> int:
        """Return how many requests those that answer work on at once."""
        return sum(each.provider.slots.count for each in self._up()) or 1

    def rows(self) -> Sequence[PoolRow]:
        """Return each server as a list shows it."""
        now = self._now()
        return [
            PoolRow(
                each.url,
                each.rests_until_s <= now,
                each.provider.slots.count,
                each.provider.slots.busy,
                each.provider.slots.waiting,
                each.weight,
                each.answered,
                round(each.tokens / each.decode_s, 1) if each.decode_s else 0.0,
                each.problem if each.rests_until_s > now else "",
            )
            for each in self.members
        ]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the pieces of one answer; a `RetryChunk` says that another server starts it again.

        Raises:
            ProviderError: the request itself is refused, or no server answers.
        """
        async with contextlib.aclosing(with_retries(partial(self._attempt, request), self._retry)) as pieces:
            async for piece in pieces:
                yield piece

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Ask the servers one after the other until one answers."""
        await self._look()
        owner = id(request.messages[0]) if request.messages else 0
        tried: list[PoolMember] = []
        while True:
            member = self._choose(owner, request.model, tried)
            tried.append(member)
            try:
                async with contextlib.aclosing(member.provider.stream(request)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Completion):
                            member.tokens += piece.usage.completion_tokens if piece.usage else 0
                            member.decode_s += piece.decode_s
                        yield piece
            except ProviderError as error:
                if error.fault in _SAME_EVERYWHERE:
                    raise
                self._fail(member, error)
                if len(tried) == len(self.members):
                    raise
                following = self._choose(owner, request.model, tried)
                yield RetryChunk(len(tried), len(self.members) - 1, 0.0, f"{error}; {following.url} is asked")
            else:
                self._succeed(member, owner)
                return

    def _choose(self, owner: int, model: str, tried: Collection[PoolMember]) -> PoolMember:
        """Return the server for a request: that of its conversation, else the one that is warm and has least to do."""
        left = [each for each in self.members if each not in tried]
        up = [each for each in left if each.rests_until_s <= self._now()] or left
        fitting = [each for each in up if each.offers(model)] or up
        kept = self._owners.get(owner)
        if kept in fitting:
            self._owners.move_to_end(owner)
            return kept
        return min(fitting, key=lambda each: (not each.is_warm(model), each.load(), each.answered / each.weight))

    def _succeed(self, member: PoolMember, owner: int) -> None:
        member.answered += 1
        member.problem, member.rests_until_s, member.rest_s = "", 0.0, _FIRST_REST_S
        self._owners[owner] = member
        self._owners.move_to_end(owner)
        while len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)

    def _fail(self, member: PoolMember, error: ProviderError) -> None:
        member.problem = str(error)
        member.rests_until_s = self._now() + max(error.retry_after_s, member.rest_s)
        member.rest_s = min(2 * member.rest_s, _LONGEST_REST_S)

    def _up(self) -> list[PoolMember]:
        return [each for each in self.members if each.rests_until_s <= self._now()]

    async def _look(self) -> None:
        """Look at the servers now and then; the first look is waited for."""
        if self._looking is None or (self._looking.done() and self._now() - self._looked_s >= _LOOK_EVERY_S):
            is_first = self._looking is None
            self._looked_s = self._now()
            self._looking = asyncio.get_running_loop().create_task(self._look_at_all())
            if is_first:
                await asyncio.wait({self._looking}, timeout=_LOOK_LIMIT_S)

    async def _look_at_all(self) -> None:
        _ = await asyncio.gather(*map(self._look_at, self.members))

    async def _look_at(self, member: PoolMember) -> None:
        found = await known_server(member.url, member.key)
        if found is not None:
            member.found, member.rests_until_s = found, 0.0
            _ = await member.provider.served("")

    async def served(self, model: str) -> ServedModel | None:
        """Return what the servers tell of a model: the smallest window, so that a conversation can go on at each."""
        found = [each for each in await asyncio.gather(*(each.provider.served(model) for each in self._up())) if each]
        if not found:
            return None
        windows = [each.window_tokens for each in found if each.window_tokens]
        return replace(found[0], window_tokens=min(windows, default=0), slots=self.slot_count)

    async def embed(self, model: str, texts: Sequence[str]) -> list[array[float]]:
        """Return vectors of the first server that has the model; see `OpenAICompatible.embed`."""
        await self._look()
        up = self._up() or list(self.members)
        return await next((each for each in up if each.offers(model)), up[0]).provider.embed(model, texts)

    async def close(self) -> None:
        """Close the connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        for each in self.members:
            await each.provider.close()
