"""What the agents of a session are made of, as the settings say it: their tools, limits and how many may work at once."""

from __future__ import annotations

from pathlib import Path

from lmtui.config import Config
from lmtui.core.children import ChildKind
from lmtui.core.ports import Toolbox
from lmtui.engine.team import TeamParts
from lmtui.runtime.connection import Connection
from lmtui.runtime.extensions import Extensions
from lmtui.runtime.limits import child_limits, command_limits
from lmtui.store.papers import AgentPapers
from lmtui.tools.registry import ToolRegistry, child_tools, tools_without_agents


def has_agents(config: Config) -> bool:
    """Tell whether the model may send sub-agents."""
    return config.sub_agents == "on" and config.agent_max_depth > 0


def tools_of(config: Config, workspace: Path) -> ToolRegistry:
    """Return the tools of the root agent."""
    root, limits = str(workspace), command_limits(config)
    return ToolRegistry(root, limits=limits) if has_agents(config) else tools_without_agents(root, limits)


def team_of(config: Config, workspace: Path, session_id: str, connection: Connection, extensions: Extensions) -> TeamParts:
    """Return what the sub-agents of a session are made of; `extensions` bring tools and definitions."""

    def toolbox(kind: ChildKind, *, can_send: bool) -> Toolbox:
        own = child_tools(str(workspace), kind, can_send=can_send, limits=command_limits(config))
        return extensions.for_child(own, kind)

    return TeamParts(
        toolbox=toolbox,
        limits=child_limits(config),
        parallel=connection.slot_count,
        max_depth=config.agent_max_depth if has_agents(config) else 0,
        definitions=extensions.agents,
        papers=AgentPapers(workspace, session_id, is_kept=config.keep_agents == "on"),
    )
