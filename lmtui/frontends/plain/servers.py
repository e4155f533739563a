"""MCP servers in the linear mode: where each stands, and the user's hand on them."""

from __future__ import annotations

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.errors import UsageError
from lmtui.core.mcp import McpServer, McpServers, ServerState
from lmtui.frontends.plain.desk import Desk

_USE = "Say /mcp, or /mcp yes|on|off|restart|tools NAME."


def mind_servers(desk: Desk, argument: str) -> None:
    """Say where the servers stand, or do what is asked with one.

    Raises:
        UsageError: there is no such server, or no such word.
    """
    servers = desk.host.extensions.mcp
    word, _, name = argument.strip().partition(" ")
    if not word:
        desk.say(*[server_line(each) for each in servers.servers()], *map(clean_line, servers.problems()))
        if not servers.servers() and not servers.problems():
            desk.say("no MCP servers are named here")
        return
    server = next((each for each in servers.servers() if each.name == name.strip()), None)
    if server is None:
        raise UsageError(f"there is no MCP server {name.strip()!r}", _USE)
    _do(desk, servers, server, word.lower())


def _do(desk: Desk, servers: McpServers, server: McpServer, word: str) -> None:
    match word:
        case "tools":
            desk.say(*[f"{tool.name} ({tool.tokens} tokens): {tool.description}" for tool in (*server.offered, *server.tools)])
        case "yes":
            servers.accept(server.name)
        case "on" | "off":
            servers.enable(server.name, is_on=word == "on")
        case "restart":
            servers.restart(server.name)
        case _:
            raise UsageError(f"{word!r} is nothing that can be done with a server", _USE)
    if word != "tools":
        desk.say(f"{clean_line(server.name)}: {word}")


def server_line(server: McpServer) -> str:
    """Return where a server stands, in one line."""
    tools = f", {counted(len(server.tools), 'tool')}, {server.tokens:,} tokens" if server.state is ServerState.READY else ""
    place = "".join(f", {part}" for part in (server.brings, server.place) if part)
    problem = f": {server.problem}" if server.problem else ""
    return clean_line(f"{server.name}: {server.state}{tools}{place}{problem}")
