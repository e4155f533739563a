"""`lmtui mcp`: the servers that are named here, started to see which work and what their tools cost."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lmtui.command_line import Parser, make_parser, say, with_report
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.mcp.mcp_config import add_server, config_files, remove_server
from lmtui.features.mcp.server_trust import set_choice
from lmtui.features.mcp.service import BROKEN, started_servers
from lmtui.features.mcp.values import McpServer, ServerState, state_words
from lmtui.features.service import CommandCall
from lmtui.registry import load
from lmtui.settings import MODES, SANDBOXES

_LOGIN_S = 600.0
_SIGNS = {ServerState.READY: "✓", ServerState.OFF: "–", ServerState.REFUSED: "–"}


def mcp_parser() -> Parser:
    """Return the parser of `lmtui mcp`."""
    doc = "List MCP servers and their tools (this starts the servers), or change your own servers.\n"
    doc += "serve offers lmtui's own tools to another agent on standard input and output."
    parser = make_parser("mcp", doc, "lmtui mcp add time -- uvx mcp-server-time")
    add = parser.add_argument
    add("action", nargs="?", choices=("list", "login", "add", "remove", "set", "serve"), default="list")
    add("name", nargs="?", metavar="NAME", help="the server")
    parser.behind = "server"
    parser.set_defaults(server=[])
    add("--url", dest="server_url", metavar="URL", help="add: the address of a server; a program follows --")
    add("--env", action="append", metavar="NAME=VALUE", help="add: a variable for the program; ${NAME} inserts yours")
    add("--header", action="append", metavar="NAME=VALUE", help="add: a header for the address")
    add("--network", dest="server_network", metavar="HOSTS", help="add, set: on, off, or hosts with commas between them")
    add("--where", choices=("sandbox", "host"), help="set: in the sandbox, or on this machine without one")
    add("--reset", action="store_true", help="set: back to the server's entry")
    add("--sandbox", choices=SANDBOXES, help="where the servers run (default: like commands); serve: where commands run")
    add("--tools", metavar="read|all|NAME,NAME", help="serve: the tools that are offered (default: read)")
    add("--mode", choices=MODES, help="serve: what runs without approval (default: normal); nobody can approve anything")
    add("--allow", action="append", metavar="RULE", help="serve: allow matching calls, for example 'Shell(git status*)'")
    add("--deny", action="append", metavar="RULE", help="serve: deny matching calls, for example 'Read(secrets/**)'")
    add("-c", "--config", action="append", metavar="KEY=VALUE", help="serve: set any setting")
    parser.set_defaults(mcp="off")  # a session for the calls of others starts no servers
    return with_report(parser)


async def mcp(call: CommandCall) -> int:
    """Print every server; 0 all that are switched on work, 1 one does not, or a file cannot be read."""
    arguments, workspace = call.arguments, call.workspace.workspace
    if arguments.action == "serve":
        await load("lmtui.features.mcp.tool_server:serve")(call)
    if arguments.action != "list" and not arguments.name:
        raise UsageError("no server is named", f"Write: lmtui mcp {arguments.action} NAME")
    if arguments.action in ("add", "remove", "set"):
        return await asyncio.to_thread(_change, workspace, arguments)
    if arguments.action == "login":
        return await _log_in(call, arguments.name)
    async with started_servers(call.workspace) as room:
        servers, problems = room.servers(), room.problems()
    if arguments.json:
        found = {"servers": [as_json(server) for server in servers], "problems": list(problems)}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print(servers, problems, [path for path, _ in config_files(workspace)])
    return 1 if problems or any(server.state in BROKEN for server in servers) else 0


def _change(workspace: Path, arguments: argparse.Namespace) -> int:
    """Add or remove one entry, or choose where it runs.  Blocks."""
    name = arguments.name
    if arguments.action == "set":
        _choose(workspace, arguments)
    elif arguments.action == "remove":
        print(f"{sanitize_line(name)} is not in {remove_server(name, workspace)} any more.")
    else:
        print(f"{sanitize_line(name)} is in {add_server(name, _entry(arguments))}; `lmtui mcp list` tries it.")
    return 0


def _entry(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the entry that the options of `add` describe."""
    if bool(arguments.server_url) == bool(arguments.server):
        raise UsageError("a server has either a command or an address", "lmtui mcp add NAME -- COMMAND, or NAME --url URL")
    entry: dict[str, object] = {"url": arguments.server_url} if arguments.server_url else {"command": arguments.server[0]}
    if arguments.server[1:]:
        entry["args"] = arguments.server[1:]
    for key, given in (("env", arguments.env), ("headers", arguments.header)):
        if given:
            entry[key] = dict(_pair(text) for text in given)
    if hosts := arguments.server_network:
        entry["network"] = hosts if hosts in ("on", "off") else hosts.split(",")
    return entry


def _choose(workspace: Path, arguments: argparse.Namespace) -> None:
    """Keep where the user lets a server run, and say what holds now."""
    given, name = arguments.server_network, arguments.name
    if not (given or arguments.where or arguments.reset):
        raise UsageError("nothing is chosen", f"lmtui mcp set {name} --where host, --network on|off|HOST,… or --reset")
    hosts = {"on": ("*",), "off": ()}.get(given, tuple(filter(None, given.split(",")))) if given else None
    on_host = arguments.where == "host" if arguments.where else None
    entry = set_choice(workspace, name, on_host=on_host, hosts=hosts, is_reset=arguments.reset)
    print(sanitize_line(f"{name}: {entry.reach_words}"))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"{text!r} is not NAME=VALUE")
    return name, value


async def _says_yes(url: str) -> bool:
    """Show the address and ask, where somebody is there."""
    print(f"It wants you to log in at:\n  {sanitize_line(url)}")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    answer = await asyncio.to_thread(input, "Open it in your browser? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


async def _log_in(call: CommandCall, name: str) -> int:
    """Let the user log in in their browser, at most ten minutes, and say what became of it."""
    async with started_servers(call.workspace) as room:
        server = next((each for each in room.servers() if each.name == name), None)
        if server is None:
            raise UsageError(f"no MCP server {name!r}", "`lmtui mcp list` names them.")
        if server.state is ServerState.LOGIN and await _says_yes(server.problem):
            room.accept(name)
            await room.settle(_LOGIN_S)
            server = next(each for each in room.servers() if each.name == name)
    print(f"{sanitize_line(name)}: {state_words(server, is_waited_for=True)}")
    return 0 if server.state is ServerState.READY else 1


def as_json(server: McpServer) -> dict[str, object]:
    """Return a server as one JSON object."""
    names = ("name", "source", "transport", "place", "reach", "version", "tokens", "problem", "hint", "warnings", "brings")
    return {name: getattr(server, name) for name in names} | {
        "state": server.state.name.lower(),
        "command": server.words,
        "changes": [{"kind": each.kind, "tool": each.name, "lines": list(each.lines)} for each in server.changes],
        "tools": [{"name": tool.name, "description": tool.description, "tokens": tool.tokens} for tool in server.tools],
    }


def _print(servers: Sequence[McpServer], problems: Sequence[str], files: Sequence[Path]) -> None:
    for server in servers:
        sign = "✗" if server.state in BROKEN else _SIGNS.get(server.state, "!")
        print(f"{sign} {sanitize_line(server.name):<18} {state_words(server, is_waited_for=True)}")
        print("\n".join(f"    {sanitize_line(line)}" for line in (server.words, server.reach) if line))
        if server.hint:
            print(f"    {sanitize_line(server.hint)}")
        for warning in server.warnings:
            print(f"    ! {sanitize_line(warning)}")
        for change in server.changes:
            print(f"    {change.kind}: {sanitize_line(change.name)}")
            for line in change.lines:
                print(f"        {sanitize_line(line)}")
        for tool in server.tools if server.state is ServerState.READY else ():
            say(f"    {tool.name}  {tool.tokens}")
    for problem in problems:
        print(f"✗ {sanitize_line(problem)}")
    if not servers and not problems:
        say("No MCP servers are named here. They may be in:")
        for path in files:
            say(f"    {path}")
    if any(server.state is ServerState.CHANGED for server in servers):
        say("Tools that changed are held back: in the app /mcp, enter shows them, y takes them as they are now.")
    if any(server.state is ServerState.WAITING for server in servers):
        say("Waiting servers start once you trust them: /mcp in the app, or `lmtui trust`.")
