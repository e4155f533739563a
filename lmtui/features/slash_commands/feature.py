"""Slash commands that are Markdown files."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="prompt_files:PromptFilesService",
    has_commands=True,
    controller="screens:PromptFileController",
)
