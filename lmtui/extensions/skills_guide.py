"""What people bring in words, with the lists of skills and of sub-agents behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from lmtui.core.guidance import SKILLS, Guidance, GuidanceSource, Guide
from lmtui.extensions.agents import AgentFiles
from lmtui.extensions.skills import LEAST_TOLD_TOKENS, MOST_TOLD_TOKENS

# A third of what instructions get, which are counted in characters: a twentieth of the window.
AGENTS = "sub-agents"
_TOKENS_PER_CHAR = 1 / 3 / 3.5


class SkillsGuide:
    """Implements `core.guidance.Guide` over another.

    `told` returns the list of skills in at most so many tokens, and its price; `agents`, if any, have half of that room.
    """

    def __init__(
        self, base: Guide, told: Callable[[int], Awaitable[tuple[str, int]]], agents: AgentFiles | None = None
    ) -> None:
        self._base, self._told, self._agents = base, told, agents

    async def read(self, limit_chars: int) -> Guidance:
        """Return what is there now."""
        most_tokens = max(LEAST_TOLD_TOKENS, min(MOST_TOLD_TOKENS, int(limit_chars * _TOKENS_PER_CHAR)))
        agents, price = await self._agents.told(most_tokens // 2) if self._agents is not None else ("", 0)
        skills, tokens = await self._told(most_tokens - price)
        found = await self._base.read(limit_chars)
        lists = [(name, cost) for name, text, cost in (("skills", skills, tokens), (AGENTS, agents, price)) if text]
        return replace(
            found,
            skills="\n\n".join(filter(None, (skills, agents))),
            sources=(*found.sources, *(GuidanceSource(SKILLS, *each) for each in lists)),
            problems=(*found.problems, *(self._agents.problems if self._agents is not None else ())),
        )
