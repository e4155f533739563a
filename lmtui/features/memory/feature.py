"""Memory: notes that last, recalled where they fit, searched, and proposed by what sessions taught."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

_TOOLS = "lmtui.features.memory.tools"
FEATURE = Feature(
    service="lmtui.features.memory.service:MemoryService",
    events=("lmtui.features.memory.values",),
    tools=(
        *(f"{_TOOLS}:{name}" for name in ("MEMORY_SEARCH", "MEMORY_APPEND", "MEMORY_FORGET", "MEMORY_READ", "MEMORY")),
        "lmtui.features.memory.tools:FIND_RELEVANT_FILES",
    ),
    subcommands=(Subcommand("memory", "lmtui.features.memory.subcommands:memory"),),
    commands="lmtui.features.memory.commands:COMMANDS",
    controller="lmtui.features.memory.screens:MemoryController",
)
