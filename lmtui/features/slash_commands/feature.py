"""Slash commands that are Markdown files."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="lmtui.features.slash_commands.prompt_files:PromptFilesService",
    has_commands=True,
    controller="lmtui.features.slash_commands.screens:PromptFileController",
)
