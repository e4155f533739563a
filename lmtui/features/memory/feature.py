"""Memory: notes that last, recalled where they fit, searched, and proposed by what sessions taught."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

_TOOLS = ("MEMORY_SEARCH", "MEMORY_APPEND", "MEMORY_FORGET", "MEMORY_READ", "MEMORY", "FIND_RELEVANT_FILES")
FEATURE = Feature(
    service="service:MemoryService",
    events=("values",),
    tools=tuple(f"tools:{name}" for name in _TOOLS),
    subcommands=(Subcommand("memory", "subcommands:memory"),),
    has_commands=True,
    imports="subcommands:imports",
    controller="screens:MemoryController",
)
