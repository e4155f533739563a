"""What of a request the server has read before, and why it reads some of it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

from lmtui.core.messages import Message, ModelRequest

_FEW_TOKENS = 160  # servers keep their cache in blocks, of up to 128 tokens


class Miss(StrEnum):
    """Why something that was sent before is read again; what changed the conversation is told in its own words.

    `RESTART`: the server was restarted or unloaded the model.  `TAKEN`: another request took the slot and its cache.
    """

    NONE = ""
    FIRST = "first request"
    MODEL = "model changed"
    FORM = "call form changed"
    TOOLS = "tools changed"
    RESTART = "restart or unload"
    PICTURE = "picture"
    TAKEN = "slot was taken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A request beside the one before, in our own tokens.

    `common` is the beginning that both have, `resent` what else was in the one before and stands elsewhere now.
    """

    total: int
    common: int
    resent: int
    cause: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How a prompt was read, in the server's tokens."""

    reused: int
    reread: int
    new: int
    is_told: bool
    miss: str

    @property
    def anew(self) -> int:
        """Return what the server had to read."""
        return self.reread + self.new


class PrefixLedger:
    """Compares each request with the one before; the cost is that of what was added, as long as nothing else changed.

    `now` is how the request that was begun last compares.

    Args:
        size: returns a message's size in our own tokens.
    """

    def __init__(self, size: Callable[[Message], int]) -> None:
        self._size = size
        self._before: ModelRequest | None = None
        self._sums: list[int] = []
        self._stays = 0
        self._revision = 0
        self._tells = False
        self._counted = (0, 0)
        self.now = Comparison(0, 0, 0, Miss.FIRST)

    def size_anew(self) -> None:
        """Size what was sent before anew: sizes from two ways of counting do not stand beside each other."""
        messages = self._before.messages if self._before else ()
        self._sums = list(accumulate(map(self._size, messages)))
        self._counted = (0, 0)

    def begin(self, request: ModelRequest, tools_size: int, revision: int, change: str) -> Comparison:
        """Compare a request that is about to be sent; `revision` and `change` are the conversation's."""
        before, messages = self._before, request.messages
        old = before.messages if before else ()
        stays = len(old) if before and revision == self._revision else _shared(old, messages)
        del self._sums[stays:]
        total = self._sums[-1] if self._sums else 0
        for message in messages[stays:]:
            total += self._size(message)
            self._sums.append(total)
        shared = self._sums[stays - 1] + tools_size if stays else 0
        head = _head_cause(before, request)
        if head:
            common, resent, cause = 0, shared, head
        elif stays < len(old):
            moved = set(map(id, old[stays:]))
            common, cause = shared, change or Miss.UNKNOWN
            resent = sum(self._size(message) for message in messages[stays:] if id(message) in moved)
        else:
            common, resent, cause = shared, 0, Miss.NONE
        self._before, self._revision, self._stays = request, revision, stays
        self.now = Comparison(total + tools_size, common, 0 if before is None else resent, str(cause))
        return self.now

    def settle(
        self, prompt_tokens: int, told: int | None, *, scaled: Callable[[int], int], is_slow: Callable[[int], bool]
    ) -> Reading:
        """Say how the request that was begun last was read, once the server has counted it.

        Args:
            prompt_tokens: the whole prompt.
            told: how many of them the server says it reused, None where it says nothing.
            scaled: returns so many of our own tokens in the server's.
            is_slow: tells whether the reading took much longer than so many tokens take.
        """
        now = self.now
        self._tells = self._tells or bool(told)
        common = self._in_servers(now.common, prompt_tokens, scaled)
        resent = min(
            scaled(now.resent) if common else self._in_servers(now.resent, prompt_tokens, scaled), prompt_tokens - common
        )
        self._counted = now.total, prompt_tokens
        if told is not None and self._tells:
            reused = min(told, prompt_tokens)
            reread = max(0, min(common + resent - reused, prompt_tokens - reused))
            if not now.cause and reread <= max(_FEW_TOKENS, common // 20):
                reread = 0
            miss = now.cause or (self._who_took(reused, common) if reread else "")
            return Reading(reused, reread, prompt_tokens - reused - reread, is_told=True, miss=miss)
        if not now.cause and common > prompt_tokens // 2 and is_slow(prompt_tokens - common):
            return Reading(0, common, prompt_tokens - common, is_told=False, miss=Miss.UNKNOWN)
        return Reading(common, resent, max(0, prompt_tokens - common - resent), is_told=False, miss=now.cause)

    def _in_servers(self, size: int, most: int, scaled: Callable[[int], int]) -> int:
        """Return a beginning of the request before in the server's tokens, which counted that one as a whole."""
        total, counted = self._counted
        return max(0, min(most, counted - scaled(total - size) if counted else scaled(size))) if size else 0

    def _who_took(self, reused: int, common: int) -> str:
        if reused <= common // 20:
            return Miss.RESTART
        stayed = self._before.messages[: self._stays] if self._before else ()
        return Miss.PICTURE if any(message.images for message in stayed) else Miss.TAKEN


def _shared(old: Sequence[Message], new: Sequence[Message]) -> int:
    """Return how many messages both begin with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one is not other), min(len(old), len(new)))


def _head_cause(before: ModelRequest | None, now: ModelRequest) -> str:
    """Return what changed in what stands before the messages, an empty text where nothing did."""
    if before is None:
        return Miss.FIRST
    if before.model != now.model:
        return Miss.MODEL
    if before.call_form is not now.call_form:
        return Miss.FORM
    if before.tools is not now.tools and before.tools != now.tools:
        return Miss.TOOLS
    return Miss.NONE
