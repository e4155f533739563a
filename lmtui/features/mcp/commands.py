"""Commands of MCP servers: list them, or do something with one."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.mcp.values import McpServers, state_words

_MCP_FORM = "Use /mcp, or /mcp yes|on|off|restart|tools NAME."


async def control_servers(context: CommandContext, argument: str) -> Result:
    """Show the state of the MCP servers, or do something with one.

    Raises:
        UsageError: no such server, or no such verb.
    """
    servers = context.host.extensions[McpServers]

    async def lines() -> Iterable[str]:
        found = [f"{sanitize_line(server.name)}: {state_words(server)}" for server in servers.servers()]
        found += map(sanitize_line, servers.problems())
        return found or ["no MCP servers configured"]

    verb, _, name = argument.strip().partition(" ")
    if not verb:
        return OpenView("mcp.show", text=lines)
    server = next((each for each in servers.servers() if each.name == name.strip()), None)
    if server is None:
        raise UsageError(f"no MCP server {name.strip()!r}", _MCP_FORM)
    match verb.lower():
        case "tools":
            tools = (*server.offered, *server.tools)
            return Output(tuple(sanitize_line(f"{tool.name} ({tool.tokens} tokens): {tool.description}") for tool in tools))
        case "yes":
            servers.accept(server.name)
        case "on" | "off":
            servers.enable(server.name, is_on=verb.lower() == "on")
        case "restart":
            servers.restart(server.name)
        case _:
            raise UsageError(f"{verb!r} is not an action of a server", _MCP_FORM)
    return Output((f"{sanitize_line(server.name)}: {verb.lower()}",))


async def _status(context: CommandContext) -> tuple[str, str]:
    offers = context.host.extensions
    servers = offers[McpServers].servers() if McpServers in offers else ()
    return "MCP servers", ", ".join(f"{each.name} {each.state}" for each in servers)


COMMANDS: tuple[Command, ...] = (
    Command("mcp.show", Scope.WORKBENCH, "MCP servers", "List MCP servers with their state, tools and token cost.",
        slash=("mcp",), argument="[yes|on|off|restart|tools NAME]", handler=control_servers, status=_status,
        tab=("Extensions", "MCP servers"), instead="`lmtui mcp`"),
)  # fmt: skip
