"""What people bring in words, with the list of skills behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from lmtui.core.guidance import SKILLS, Guidance, GuidanceSource, Guide


class SkillsGuide:
    """Implements `core.guidance.Guide` over another; `told` returns the list of skills and its price in tokens."""

    def __init__(self, base: Guide, told: Callable[[], Awaitable[tuple[str, int]]]) -> None:
        self._base, self._told = base, told

    async def read(self, limit_chars: int) -> Guidance:
        """Return what is there now."""
        skills, tokens = await self._told()
        found = await self._base.read(limit_chars)
        sources = (*found.sources, *([GuidanceSource(SKILLS, "skills", tokens)] if skills else []))
        return replace(found, skills=skills, sources=sources)
