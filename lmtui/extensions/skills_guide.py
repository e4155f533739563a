"""What people bring in words, with the list of skills behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from lmtui.core.guidance import SKILLS, Guidance, GuidanceSource, Guide
from lmtui.extensions.skills import LEAST_TOLD_TOKENS, MOST_TOLD_TOKENS

# A third of what instructions get, which are counted in characters: a twentieth of the window.
_TOKENS_PER_CHAR = 1 / 3 / 3.5


class SkillsGuide:
    """Implements `core.guidance.Guide` over another.

    `told` returns the list of skills in at most so many tokens, and its price.
    """

    def __init__(self, base: Guide, told: Callable[[int], Awaitable[tuple[str, int]]]) -> None:
        self._base, self._told = base, told

    async def read(self, limit_chars: int) -> Guidance:
        """Return what is there now."""
        most_tokens = max(LEAST_TOLD_TOKENS, min(MOST_TOLD_TOKENS, int(limit_chars * _TOKENS_PER_CHAR)))
        skills, tokens = await self._told(most_tokens)
        found = await self._base.read(limit_chars)
        sources = (*found.sources, *([GuidanceSource(SKILLS, "skills", tokens)] if skills else []))
        return replace(found, skills=skills, sources=sources)
