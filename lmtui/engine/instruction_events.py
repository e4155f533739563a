"""Instructions, persona and skills reach the model: read when a turn begins, told again only where they changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lmtui.core.events import ROOT, Level, Notice
from lmtui.core.instruction_values import GuidanceRead, Instructions, cut_sources
from lmtui.core.sanitize import sanitize_line
from lmtui.core.window import ASSUMED_WINDOW_TOKENS

if TYPE_CHECKING:
    from lmtui.engine.agent import Agent

SHARE, MAX_CHARS = 0.15, 24_000
_CHARS_PER_TOKEN = 3.5


async def take_guidance(agent: Agent) -> None:
    """Read the instruction files once in a turn and tell the model what is new."""
    if agent.id != ROOT or agent.turn.has_read_instructions:
        return
    agent.turn.has_read_instructions = True
    known = agent.conversation.prompt.newest
    found = await agent.services.features.instructions.read(guidance_chars(agent.state.model.window_tokens))
    if _told(found) == _told(known):
        return
    agent.emit(GuidanceRead(agent=agent.id, guidance=found))
    new_cuts = [name for name in cut_sources(found.sources) if name not in cut_sources(known.sources)]
    new_problems = [sanitize_line(problem) for problem in found.problems if problem not in known.problems]
    cuts = [f"{', '.join(new_cuts)} was cut: it takes more than {SHARE:.0%} of the window"] if new_cuts else []
    for text in (*cuts, *new_problems):
        agent.emit(Notice(agent=agent.id, level=Level.WARNING, text=text))


def guidance_chars(window_tokens: int) -> int:
    """Return how much may be told, in characters: a share of the window."""
    return min(MAX_CHARS, int((window_tokens or ASSUMED_WINDOW_TOKENS) * SHARE * _CHARS_PER_TOKEN))


def _told(guidance: Instructions) -> Instructions:
    """Return what counts as a change: prices do not."""
    return replace(guidance, sources=())
