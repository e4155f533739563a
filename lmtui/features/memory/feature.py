"""Memory: notes that last, recalled where they fit, searched, and proposed by what sessions taught."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

_TOOLS = ("MEMORY_SEARCH", "MEMORY_APPEND", "MEMORY_FORGET", "MEMORY_READ", "MEMORY", "FIND_RELEVANT_FILES")
FEATURE = Feature(
    service="lmtui.features.memory.service:MemoryService",
    events=("lmtui.features.memory.values",),
    tools=tuple(f"lmtui.features.memory.tools:{name}" for name in _TOOLS),
    subcommands=(Subcommand("memory", "lmtui.features.memory.subcommands:memory"),),
    has_commands=True,
    imports="lmtui.features.memory.subcommands:imports",
    controller="lmtui.features.memory.screens:MemoryController",
)
