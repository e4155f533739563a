"""Skills, tools that the user promoted, and sub-agents that files define."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="lmtui.features.skills.service:SkillsService",
    tools=("lmtui.features.skills.tools:SKILL", "lmtui.features.skills.tools:PROMOTE"),
    subcommands=(Subcommand("skills list|show NAME", "lmtui.features.skills.subcommands:skills"),),
    has_commands=True,
    imports="lmtui.features.skills.subcommands:imports",
    controller="lmtui.features.skills.screens:SkillController",
)
