"""Sub-agents that the user or the folder defines in Markdown files, as values.  No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lmtui.core.errors import ToolError
from lmtui.core.skills import SkillState


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A kind of sub-agent: `instructions` are what one is told beside its task, `place` is its file as the user knows it.

    `allowed` are the only tools that it may call, as rules (None: all that it would have anyway), `denied` those that it may
    not.  `model` is empty where it has its parent's.  `problem` is why it is broken or hidden, `warnings` what is wrong with
    one that can be used all the same.
    """

    name: str
    description: str
    place: str
    instructions: str = ""
    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    model: str = ""
    state: SkillState = SkillState.READY
    problem: str = ""
    warnings: tuple[str, ...] = ()


class AgentDefinitions(Protocol):
    """The sub-agents that are defined."""

    async def named(self, name: str) -> AgentDefinition:
        """Return the definition of that name.

        Raises:
            ToolError: there is none, or it may not be used; the text lists those there are.
        """


class NoAgentDefinitions:
    """Has none."""

    async def named(self, name: str) -> AgentDefinition:
        """Say so."""
        raise ToolError(f"there is no sub-agent {name[:60]!r}: none is defined here", "Call it again without `agent`.")
