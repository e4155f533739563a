"""What is said of MCP servers: their line in the list, their state, tools and changes, and the notice above the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content

from lmtui.core.clean import clean, clean_line, reveal_line
from lmtui.core.counting import counted
from lmtui.core.mcp import McpServer, ServerState, changes_text
from lmtui.tui.commands import command, first_key
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.text import Line, fit, pad

SIGNS = {
    ServerState.READY: ("✓", "$success"),
    ServerState.STARTING: ("…", "$accent"),
    ServerState.WAITING: ("?", "$warning"),
    ServerState.CHANGED: ("?", "$warning"),
    ServerState.LOGIN: ("?", "$warning"),
    ServerState.REFUSED: ("–", "$text-muted"),
    ServerState.OFF: ("–", "$text-muted"),
    ServerState.ENDED: ("✗", "$error"),
    ServerState.FAILED: ("✗", "$error"),
}
LOG_LINES = 400
_NAME_CELLS = 18
_PLACE_CELLS = 23
_NOTICE_CELLS = 140
_MOST_NAMED = 4
_CHANGES = {"added": ("+", "good"), "removed": ("-", "bad")}
_TOLD = {
    ServerState.FAILED: "MCP server {name} does not run: {problem}",
    ServerState.CHANGED: "MCP server {name} offers other tools than you accepted; they wait for you",
    ServerState.LOGIN: "MCP server {name} waits for your login",
    ServerState.WAITING: "MCP server {name} waits for your yes",
}
_SHORT = {
    ServerState.FAILED: "does not run",
    ServerState.CHANGED: "has other tools",
    ServerState.LOGIN: "wants a login",
    ServerState.WAITING: "waits for your yes",
}


def server_line(server: McpServer, width: int) -> Content:
    """Return a server in aligned columns."""
    sign, style = SIGNS[server.state]
    tools = f"{counted(len(server.tools), 'tool')}, {server.tokens:,} tokens" if server.tools else ""
    place = server.place or server.transport
    room = max(12, width - _NAME_CELLS - 5 - (_PLACE_CELLS + 1 if width > 70 else 0))
    state = tools if server.state is ServerState.READY else str(server.state)
    return Content.assemble(
        (f" {sign} ", style),
        (f"{pad(fit(clean_line(server.name), _NAME_CELLS), _NAME_CELLS)} ", "$text"),
        (f"{pad(fit(clean_line(place), _PLACE_CELLS), _PLACE_CELLS)} " if width > 70 else "", "$text-muted"),
        (fit(state, room), style if server.state is not ServerState.READY else "$text-muted"),
    )


def about(server: McpServer) -> str:
    """Return what there is to know of a server, on a few lines."""
    tools = f"{counted(len(server.tools), 'tool')}, {server.tokens:,} tokens if all are told" if server.tools else ""
    place = f"runs in: {server.place}" if server.place and server.transport == "stdio" else server.transport
    first = " · ".join(part for part in (str(server.state), place, tools, server.version) if part)
    is_hinted = server.problem or server.state is ServerState.STARTING
    problem = "  ".join(part for part in (server.problem, server.hint if is_hinted else "") if part)
    changed = f"{changes_text(server.changes)}: {_change_keys()}" if server.state is ServerState.CHANGED else ""
    brings = " · ".join(part for part in (server.brings, server.reach) if part)
    warned = [f"! {each}" for each in server.warnings]
    lines = (first, brings, problem, changed, *warned, server.words, f"from {server.source}")
    return "\n".join(clean_line(line) for line in lines if line)


def _change_keys() -> str:
    return (
        f"{first_key(command('mcp.tools'))} shows what differs, {first_key(command('mcp.accept'))} takes them as they are now"
    )


def tool_lines(server: McpServer, width: int) -> list[Line]:
    """Return the tools with their words, as the model is told of them; what differs from what was accepted comes first."""
    lines = change_lines(server, width) if server.state is ServerState.CHANGED else []
    for heading, tools in (("AS IT OFFERS THEM NOW", server.offered), ("AS YOU ACCEPTED THEM", server.tools)):
        lines += whole_text(heading, width, "muted") if tools and server.offered else []
        for tool in tools:
            price = f"  {tool.tokens} tokens" if tool.tokens else ""
            lines += [*whole_text(f"{tool.name}{price}", width, "strong"), *whole_text(tool.description, width), ()]
    return lines[:-1] or [*whole_text("It has none, or they are not known yet.", width)]


def change_lines(server: McpServer, width: int) -> list[Line]:
    """Return what differs between the tools that were accepted and those that the server has now."""
    keys = f"{first_key(command('mcp.accept'))} in the list takes them; until then none of its tools is called."
    lines = [*whole_text(f"WHAT CHANGED: {changes_text(server.changes)}", width, "muted"), *whole_text(keys, width, "warn"), ()]
    for change in server.changes:
        sign, role = _CHANGES.get(change.kind, ("~", "warn"))
        lines += whole_text(f"{sign} {change.kind}: {clean_line(change.name)}", width, f"{role} strong")
        for line in change.lines:
            lines += whole_text(f"  {reveal_line(line)}", width, {"+": "good", "-": "bad"}.get(line[:1], "muted"))
        lines.append(())
    return lines


def notice(servers: Sequence[McpServer]) -> str:
    """Return what the servers that need the user say above the prompt, on two lines of a small screen at most."""
    if len(servers) != 1:
        named = [f"{fit(clean_line(server.name), _NAME_CELLS)} {_SHORT[server.state]}" for server in servers]
        text = f"MCP servers: {', '.join(named[:_MOST_NAMED])}"
        return f"{text}{f' and {len(named) - _MOST_NAMED} more' if len(named) > _MOST_NAMED else ''}  /mcp"
    (server,) = servers
    name = fit(clean_line(server.name), _NAME_CELLS)
    text = _TOLD[server.state].format(name=name, problem=clean_line(server.problem))
    return f"{fit(text, _NOTICE_CELLS)}  /mcp"


def needs_user(server: McpServer) -> bool:
    """Tell whether a server does nothing until the user does something."""
    return server.state in _TOLD


def log_end(path: Path) -> list[str]:
    """Return the last lines of a log.  Blocks."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ["It has said nothing yet."]
    return clean(text).splitlines()[-LOG_LINES:] or ["It has said nothing yet."]
