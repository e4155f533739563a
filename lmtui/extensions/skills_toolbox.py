"""The tools of one session with those of skills: the one that reads them, and those that the user promoted.

As with servers' tools the model's list of them stays from the first request on, until room is made.
"""

from __future__ import annotations

from lmtui.core.events import Envelope, TurnStarted
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.model_events import Compacted
from lmtui.core.ports import PreparedCall, Toolbox
from lmtui.core.skills import PROMOTED
from lmtui.extensions.call_arguments import fitted, read_arguments
from lmtui.extensions.promoted import PromotedCall, PromotedTools

SKILL = "skill"
_MOST_TOLD_TOKENS = 1_000


class SkillToolbox:
    """Implements `core.ports.Toolbox` over another; in a small set of tools nothing of skills is told."""

    def __init__(self, base: Toolbox, tools: PromotedTools) -> None:
        self._base, self._tools = base, tools
        self._is_begun = False
        self._settled: tuple[ToolSpec, ...] | None = None

    def follow(self, envelope: Envelope) -> None:
        """Take note of an event of the session."""
        match envelope.event:
            case TurnStarted():
                self._is_begun = True
            case Compacted():
                self._settled = None
            case _:
                pass

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        """Return what the model is told of the tools."""
        base = self._base.specs(tools, sees=sees)
        if tools not in (ToolSet.FULL, ToolSet.ALL):
            return base
        told = self._settled if self._settled is not None else self._promoted()
        if self._is_begun:
            self._settled = told
        every = self._base.specs(ToolSet.ALL, sees=sees) if tools is ToolSet.FULL else ()
        return (*base, *(spec for spec in every if spec.name == SKILL), *told)

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        """Check one call; see `core.ports.Toolbox.prepare`."""
        wanted = name.strip().lower().replace("-", "_")
        if not wanted.startswith(PROMOTED):
            return self._base.prepare(name, arguments)
        tool = self._tools.named(wanted)
        return PromotedCall(tool, fitted(read_arguments(tool.name, arguments), tool.parameters))

    def _promoted(self) -> tuple[ToolSpec, ...]:
        """Return the promoted tools as far as there is room; the others are called all the same."""
        told: list[ToolSpec] = []
        room = _MOST_TOLD_TOKENS
        for tool in self._tools.all():
            room -= tool.tokens if not tool.problem else 0
            if not tool.problem and room >= 0:
                told.append(ToolSpec(tool.name, tool.description, tool.parameters))
        return tuple(told)
