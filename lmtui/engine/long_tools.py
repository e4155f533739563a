"""A model that was told of few tools is told of those for long work once the work is long.

That is when room was made, as the server reads its prompt again then in any case, or when a plan was approved.
"""

from __future__ import annotations

from lmtui.core.events import ROOT
from lmtui.core.messages import ToolSet
from lmtui.core.model_events import ToolSetChanged
from lmtui.engine.desk import Desk

_LEAST_ROOM = 4.0  # times what they take


def offer_long_tools(desk: Desk, free_tokens: int) -> None:
    """Tell of them, where `free_tokens` are enough; a set that the settings name stays as it is."""
    if desk.tool_set is not ToolSet.LEAN or desk.window.tools != "auto" or desk.agent != ROOT:
        return
    long = desk.toolbox.specs(ToolSet.LONG, sees=desk.has_eyes)
    budget = desk.window.budget
    more = budget.scaled(budget.tools_size(long) - budget.tools_size(desk.specs()))
    if more * _LEAST_ROOM <= free_tokens:
        event = ToolSetChanged(agent=desk.agent, tools=ToolSet.LONG, why="the work is long", edits=desk.edits)
        desk.emit(event)
