"""The window that is really served: prompts of growing size, with a word at the beginning that is asked for at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from lmtui.core.errors import ContextOverflow, ProviderError
from lmtui.core.messages import Completion
from lmtui.core.ports import TokenCounter
from lmtui.core.window import ASSUMED_WINDOW_TOKENS
from lmtui.engine.exam_asking import Examinee

_FIRST_TOKENS, _MOST_TOKENS = 2048, 131_072
_FILLED_SHARE = 0.95
_WHOLE_SHARE = 0.75
_BUDGET_S = 30.0
_GRACE_S = 5.0
_MOST_PROMPTS = 14
_ANSWER_TOKENS = 16
_FINE_SHARE = 0.1
_TOO_SLOW = f"unknown: it reads too slowly to probe it within {_BUDGET_S:.0f} s"
_COLOURS = ("amber", "indigo", "olive", "crimson", "ivory", "teal", "violet", "copper")


@dataclass(frozen=True, slots=True)
class WindowFound:
    """What a probe found: `tokens` is the window to work with (0: none was found), `is_exact`: hardly more is served."""

    tokens: int
    text: str
    is_exact: bool = False


@dataclass(slots=True)
class _Bounds:
    """The largest prompt that was read whole, and the smallest that was not (0: none yet)."""

    whole: int = 0
    too_large: int = 0
    told: int = 0

    @property
    def is_fine(self) -> bool:
        """Tell whether nothing more is to be learned."""
        return bool(self.told) or (0 < self.too_large <= self.whole * (1 + _FINE_SHARE))

    def next_size(self, most: int) -> int:
        """Return the size to try now: twice the last, later the middle."""
        if self.too_large:
            return (self.whole + self.too_large) // 2
        return int(min(most, max(_FIRST_TOKENS, _doubled(self.whole))) * _FILLED_SHARE)


class WindowProbe:
    """Probes one model.

    Args:
        examinee: the model; the speed at which it reads should be known already.
        count: our own way of counting.
        monotonic: the clock.
        salt: a word that no probe before had.
    """

    def __init__(self, examinee: Examinee, count: TokenCounter, monotonic: Callable[[], float], salt: str) -> None:
        self._examinee = examinee
        self._count = count
        self._now = monotonic
        self._salt = salt

    async def run(self, most_tokens: int, say: Callable[[str], None]) -> WindowFound:
        """Probe for half a minute at most; `most_tokens` is what the model could do at all, 0 where that is unknown.

        Raises:
            ProviderError: the very first prompt failed for another reason than its size.
        """
        begun, bounds, most = self._now(), _Bounds(), most_tokens or _MOST_TOKENS
        for _ in range(_MOST_PROMPTS):
            if bounds.is_fine or bounds.whole >= most * _FILLED_SHARE * _FILLED_SHARE:
                break
            size = bounds.next_size(most)
            left_s = _BUDGET_S - (self._now() - begun)
            if self._examinee.plain.read_s(size) > left_s:
                break
            say(f"window: a prompt of about {size:,} tokens")
            try:
                async with asyncio.timeout(left_s + _GRACE_S):
                    await self._measure(size, bounds)
            except TimeoutError:
                break
        if most_tokens and bounds.whole >= most_tokens * _FILLED_SHARE * _FILLED_SHARE:
            return WindowFound(most_tokens, f"{most_tokens:,} tokens: all that the model could do", is_exact=True)
        return _found(bounds)

    async def _measure(self, size: int, bounds: _Bounds) -> None:
        """Learn from one prompt."""
        try:
            read = await self._try(size)
        except ContextOverflow as error:
            bounds.too_large, bounds.told = size, error.window_tokens
        except ProviderError:
            if not bounds.whole:
                raise
            bounds.too_large = size
        else:
            bounds.whole = max(bounds.whole, read)
            bounds.too_large = bounds.too_large if read else size

    async def _try(self, size: int) -> int:
        """Send a prompt of about a size; return how many tokens of it were read if all were, else 0."""
        word = f"{_COLOURS[size % len(_COLOURS)]}-{size % 97}"
        head = f"{self._salt} {size}. The secret word is {word}. Remember it.\n"
        tail = "\nWhat is the secret word? Answer with that word alone."
        plain = self._examinee.plain
        wanted = int(size / plain.token_ratio) - self._count(head + tail)
        text = head + filler(max(1, wanted), self._count) + tail
        expected = plain.scaled(self._count(text))
        completion = await self._examinee.ask_words(text, _ANSWER_TOKENS)
        return read_whole(completion, expected, word)


def _doubled(whole: int) -> int:
    """Return the power of two above twice what was read whole."""
    return 1 << (2 * whole).bit_length() if whole else 0


def read_whole(completion: Completion, expected: int, word: str) -> int:
    """Return how many tokens were read if that was the whole prompt, else 0.

    The server's count decides; where it counts nothing, or as much as if a part were missing, the word does.
    """
    counted = completion.usage.prompt_tokens if completion.usage else 0
    if counted >= expected * _WHOLE_SHARE:
        return counted
    said = completion.message.text + completion.message.thinking
    return expected if word.lower() in said.lower() else 0


def filler(tokens: int, count: TokenCounter) -> str:
    """Return text of about so many of our own tokens that says little and never the same twice."""
    lines: list[str] = []
    left = tokens
    number = 0
    while left > 0:
        number += 1
        line = f"Note {number}: the boat to island {number * 7 % 89} leaves at {number % 24}:{number * 13 % 60:02}."
        lines.append(line)
        left -= count(line) + 1
    return "\n".join(lines)


def _found(bounds: _Bounds) -> WindowFound:
    if bounds.told:
        return WindowFound(
            bounds.told, f"{bounds.told:,} tokens, as the server said when a prompt was too large", is_exact=True
        )
    if not bounds.whole:
        text = f"unknown: not even {bounds.too_large:,} tokens were read whole" if bounds.too_large else _TOO_SLOW
        return WindowFound(0, text)
    if not bounds.too_large:  # a bound that the time set is worth keeping only where it is more than is assumed
        tokens = bounds.whole if bounds.whole > ASSUMED_WINDOW_TOKENS else 0
        return WindowFound(tokens, f"at least {bounds.whole:,} tokens; there was no time to try more")
    text = f"{bounds.whole:,} tokens were read whole, {bounds.too_large:,} were not"
    return WindowFound(bounds.whole, text, is_exact=bounds.is_fine)
