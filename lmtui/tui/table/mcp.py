"""Commands of MCP servers: from the main screen, and in their list."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

MCP: tuple[Command, ...] = (
    Command(
        "mcp.show", Scope.WORKBENCH, "MCP servers", "See which servers run and where, their tools, what those cost.",
        (), "", ("mcp",), runs="call('mcp.show')",
    ),
    Command("mcp.tools", Scope.MCP, "Tools", "Read the tools of the marked server.", ("enter",), "tools"),
    Command("mcp.accept", Scope.MCP, "Yes", "Let the marked server start, or take its changed tools.", ("y",), "yes"),
    Command("mcp.switch", Scope.MCP, "On or off", "Switch the marked server on or off.", ("o",), "on/off"),
    Command("mcp.restart", Scope.MCP, "Restart", "End the marked server and start it again.", ("r",), "restart"),
    Command("mcp.log", Scope.MCP, "Log", "Read the end of what the marked server said beside its answers.", ("l",), "log"),
)  # fmt: skip
