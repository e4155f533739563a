"""The skills and sub-agents of a workspace, put together with our own tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lmtui.core.agent_definitions import AgentDefinition
from lmtui.core.ports import TokenCounter
from lmtui.core.skills import PROMOTE_TOOL, PromotedTool, Skill
from lmtui.extensions.agents import AgentFiles
from lmtui.extensions.skills import MOST_TOLD_TOKENS, SkillShelf
from lmtui.paths import config_dir
from lmtui.providers.tokens import count_tokens
from lmtui.tools.registry import ALL_TOOLS, SELDOM, ToolRegistry


def shelf_of(workspace: Path, count_tokens: TokenCounter) -> SkillShelf:
    """Return the skills of a workspace and its user."""
    tools = ToolRegistry()
    return SkillShelf(workspace, config_dir(), count_tokens, tools.canonical, _form_of)


async def read_skills(workspace: Path) -> tuple[list[Skill], list[PromotedTool], tuple[str, int]]:
    """Return the skills and promoted tools that are there now, and what the model is told of them with its price."""
    shelf = shelf_of(workspace, count_tokens)
    return list(await shelf.found()), list(shelf.promoted()), await shelf.told()


async def read_skill(workspace: Path, name: str) -> str:
    """Return a skill as the model gets it.

    Raises:
        ToolError: there is none, or it may not be read.
    """
    return (await shelf_of(workspace, count_tokens).use(name)).text


def agents_of(workspace: Path, count_tokens: TokenCounter) -> AgentFiles:
    """Return the sub-agents that a workspace and its user define."""
    return AgentFiles(workspace, config_dir(), count_tokens, ToolRegistry().canonical)


async def read_agents(workspace: Path) -> tuple[Sequence[AgentDefinition], int]:
    """Return the definitions that are there now, and what the model is told of them costs at most."""
    agents = agents_of(workspace, count_tokens)
    return await agents.found(), (await agents.told(MOST_TOLD_TOKENS // 2))[1]


def _form_of(name: str) -> str:
    """Return how a tool is called that a model is seldom told of."""
    if name not in (*SELDOM, PROMOTE_TOOL) or name == "skill":
        return ""
    spec = next(tool.spec() for tool in ALL_TOOLS if tool.name == name)
    return f"There is a tool {spec.name}: {spec.description} Its arguments: {json.dumps(spec.parameters)}"
