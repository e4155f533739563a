"""MCP servers: their tools, resources and prompts."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:McpService",
    flags={"--no-mcp": {"dest": "mcp", "action": "store_const", "const": "off", "help": "start no MCP servers"}},
    subcommands=(Subcommand("mcp list|login|add|remove|set|serve", "subcommands:mcp"),),
    has_commands=True,
    controller="screens:McpController",
)
