"""Skills, tools that the user promoted, and sub-agents that files define."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:SkillsService",
    tools=("tools:SKILL", "tools:PROMOTE"),
    subcommands=(Subcommand("skills list|show NAME", "service:skills"),),
    has_commands=True,
    imports="service:imports",
    controller="screens:SkillController",
)
