"""Slash commands that are Markdown files."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="lmtui.features.slash_commands.prompt_files:PromptFilesService",
    commands="lmtui.features.slash_commands.commands:COMMANDS",
    controller="lmtui.features.slash_commands.screens:PromptFileController",
)
