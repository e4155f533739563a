"""MCP servers in the app: their list, and a word when one of them needs the user."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textual.app import App

from lmtui.core.errors import UsageError, two_sentences
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize, sanitize_line
from lmtui.core.sessions import SessionHost
from lmtui.core.tool_servers import Field, Form, fields_of
from lmtui.features.mcp.values import McpServer, McpServers, ServerState, changes_text
from lmtui.tui.commands import Command, command, first_key
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.styled_text import Line, Span, StyleRole, fit, join_roles
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import AskText, Confirm, Picker, Reading
from lmtui.tui.modals.results import Choice
from lmtui.tui.workbench_api import FeatureController, Handler, WorkbenchApi

_DONE = "\0done"


async def ask_form(app: App[Any], form: Form) -> Mapping[str, object] | None:
    """Ask everything that a form wants; None where the user left it.  Runs in a worker of the app."""
    if form.url:
        asking = Confirm(f"{sanitize_line(form.server)} wants you to open this page", f"{form.text}\n\n{form.url}")
        if not await app.push_screen_wait(asking):
            return None
        await asyncio.to_thread(webbrowser.open, form.url)
        return {}
    values: dict[str, object] = {}
    title = f"{sanitize_line(form.server)} ASKS: {form.text}"
    for each in fields_of(form):
        found = await _asked(app, title, each)
        if found is _LEFT:
            return None
        if found is not None:
            values[each.name] = found
    told = "\n".join(f"{sanitize_line(name)}: {sanitize_line(str(value))}" for name, value in values.items())
    text = f"{form.text}\n\n{told or '(nothing)'}"
    return values if await app.push_screen_wait(Confirm(f"Send this to {sanitize_line(form.server)}?", text)) else None


_LEFT = object()  # the answer to a question that was left


async def _asked(app: App[Any], title: str, each: Field) -> object:
    """Return a field's value, None where it is left out, `_LEFT` where the whole form is left."""
    if each.kind == "array":
        return await _several(app, title, each)
    choices, default = each.choices, str(each.default or "")
    if each.kind == "boolean":
        choices, default = (("yes", "yes"), ("no", "no")), "yes" if each.default else "no"
    if not choices:
        return await _typed(app, title, each)
    picker = Picker(f"{title} · {each.title}", [Choice(value, words) for value, words in choices], chosen=default)
    found = await app.push_screen_wait(picker)
    if found is None:
        return _LEFT
    return found == "yes" if each.kind == "boolean" else found


async def _several(app: App[Any], title: str, each: Field) -> object:
    """Let one after the other be chosen, until it is enough."""
    taken: list[str] = []
    while True:
        left = [Choice(value, words) for value, words in each.choices if value not in taken]
        done = Choice(_DONE, f"done: {', '.join(map(sanitize_line, taken)) or 'none'}")
        found = await app.push_screen_wait(Picker(f"{title} · {each.title}", [done, *left]))
        if found is None:
            return _LEFT
        if found == _DONE:
            return taken
        taken.append(found)


async def _typed(app: App[Any], title: str, each: Field) -> object:
    words = each.title
    while True:
        note = each.note or ("" if each.is_required else "may be left empty")
        value = "" if each.default is None else sanitize_line(str(each.default))
        text = await app.push_screen_wait(AskText(f"{title} · {words}", value=value, placeholder=note))
        if text is None:
            return _LEFT
        if not text and each.is_required:
            continue
        try:
            return each.read(text)
        except UsageError as error:
            words = str(error)


SIGNS: dict[ServerState, Span] = {
    ServerState.READY: ("✓", "good"),
    ServerState.STARTING: ("…", "accent"),
    **dict.fromkeys((ServerState.WAITING, ServerState.CHANGED, ServerState.LOGIN), ("?", "warn")),
    **dict.fromkeys((ServerState.REFUSED, ServerState.OFF), ("–", "muted")),
    **dict.fromkeys((ServerState.ENDED, ServerState.FAILED), ("✗", "bad")),
}
LOG_LINES = 400
_NAME_CELLS = 18
_NOTICE_CELLS = 140
_MOST_NAMED = 4
_CHANGES: dict[str, Span] = {"added": ("+", "good"), "removed": ("-", "bad")}
_NEEDS = {
    ServerState.FAILED: "does not run",
    ServerState.CHANGED: "has other tools",
    ServerState.LOGIN: "wants a login",
    ServerState.WAITING: "needs approval",
}


def about(server: McpServer) -> str:
    """Return what there is to know of a server, on a few lines."""
    tools = f"{pluralize(len(server.tools), 'tool')}, {server.tokens:,} tokens if all are sent" if server.tools else ""
    place = f"runs in: {server.place}" if server.place and server.transport == "stdio" else server.transport
    first = " · ".join(part for part in (str(server.state), place, tools, server.version) if part)
    problem = two_sentences(server.problem, server.hint)
    shows, takes = first_key(command("picker.open")), first_key(command("list.yes"))
    keys = f"{shows} shows what differs, {takes} takes them as they are now"
    changed = f"{changes_text(server.changes)}: {keys}" if server.state is ServerState.CHANGED else ""
    brings = " · ".join(part for part in (server.brings, server.reach) if part)
    warned = [f"! {each}" for each in server.warnings]
    lines = (first, brings, problem, changed, *warned, server.words, f"from {server.source}")
    return "\n".join(sanitize_line(line) for line in lines if line)


def tool_lines(server: McpServer, width: int) -> list[Line]:
    """Return the tools with their words, as the model is told about them; what differs from what was accepted comes first."""
    lines = change_lines(server, width) if server.state is ServerState.CHANGED else []
    for heading, tools in (("AS IT OFFERS THEM NOW", server.offered), ("AS YOU ACCEPTED THEM", server.tools)):
        lines += whole_text(heading, width, "muted") if tools and server.offered else []
        for tool in tools:
            price = f"  {tool.tokens} tokens" if tool.tokens else ""
            lines += [*whole_text(f"{tool.name}{price}", width, "strong"), *whole_text(tool.description, width), ()]
    return lines[:-1] or [*whole_text("It has none, or they are not known yet.", width)]


def change_lines(server: McpServer, width: int) -> list[Line]:
    """Return what differs between the tools that were accepted and those that the server has now."""
    keys = f"{first_key(command('list.yes'))} in the list takes them; until then none of its tools is called."
    lines = [*whole_text(f"WHAT CHANGED: {changes_text(server.changes)}", width, "muted"), *whole_text(keys, width, "warn"), ()]
    roles: dict[str, StyleRole] = {"+": "good", "-": "bad"}
    for change in server.changes:
        sign, role = _CHANGES.get(change.kind, ("~", "warn"))
        lines += whole_text(f"{sign} {change.kind}: {sanitize_line(change.name)}", width, join_roles(role, "strong"))
        for line in change.lines:
            lines += whole_text(f"  {escape_invisible_line(line)}", width, roles.get(line[:1], "muted"))
        lines.append(())
    return lines


def notice(servers: Sequence[McpServer]) -> str:
    """Return what the servers that need the user say above the prompt, on two lines of a small screen at most."""
    problem = f": {sanitize_line(servers[0].problem)}" if len(servers) == 1 and servers[0].state is ServerState.FAILED else ""
    named = [f"{fit(sanitize_line(server.name), _NAME_CELLS)} {_NEEDS[server.state]}" for server in servers]
    listed = ", ".join(named[:_MOST_NAMED])
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return f"{fit(f'MCP: {listed}{more}{problem}', _NOTICE_CELLS)}  /mcp"


def log_end(path: Path) -> list[str]:
    """Return the last lines of a log.  Blocks."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ["It has said nothing yet."]
    return sanitize(text).splitlines()[-LOG_LINES:] or ["It has said nothing yet."]


EMPTY = """\
No MCP servers yet. They are named in .lmagent/mcp.json or .mcp.json of
this folder, or in your own mcp.json:

  {"mcpServers": {"time": {"command": "mcp-server-time"}}}"""
ASKED_ABOUT = (ServerState.WAITING, ServerState.REFUSED, ServerState.CHANGED, ServerState.LOGIN)


class McpList(ListDialog[McpServer, None]):
    """Lists the servers."""

    NAME, HEADING, TAB, CHOOSING = "mcp", "MCP servers", "mcp.show", "tools"
    COLUMNS = (Column(most=1), Column("server", 18), Column("runs in", 23, from_width=70), Column("state"))
    VERBS = (("yes", "accept"), ("switch", "on/off"), ("run", "restart"), ("output", "log"))

    def __init__(self, servers: McpServers) -> None:
        super().__init__()
        self._servers = servers
        self.ends = [servers.listen(lambda: self.call_later(self.reload))]

    async def rows(self) -> Sequence[McpServer]:
        """Return the servers."""
        return self._servers.servers()

    def key(self, row: McpServer) -> str:
        """Return the server's name."""
        return row.name

    def cells(self, row: McpServer) -> Sequence[Cell]:
        """Return a server in columns."""
        sign, style = SIGNS[row.state]
        tools = f"{pluralize(len(row.tools), 'tool')}, {row.tokens:,} tokens" if row.tools else ""
        is_ready, place = row.state is ServerState.READY, sanitize_line(row.place or row.transport)
        state: Span = (tools, "muted") if is_ready else (str(row.state), style)
        return (sign, style), sanitize_line(row.name), (place, "muted"), state

    def about(self, row: McpServer | None) -> tuple[str, Sequence[Command]]:
        """Return what there is to know of a server, and what can be done with it."""
        problems = [sanitize_line(each) for each in self._servers.problems()]
        text = "\n".join([about(row) if row is not None else EMPTY, *problems])
        waits = row is not None and row.state in ASKED_ABOUT
        return text, self.verbs(*(() if waits else ("yes",))) if row is not None else ()

    def act(self) -> None:
        """Read the tools of the marked server."""
        if (server := self.current) is not None:
            title = f"Tools of {sanitize_line(server.name)}"
            _ = self.app.push_screen(Reading(title, lambda width: tool_lines(server, width)))

    async def do_yes(self, server: McpServer) -> None:
        """Ask, then let a server start or take its changed tools."""
        if server.state is ServerState.CHANGED:
            looks = first_key(command("picker.open"))
            title = "Take its tools as they are now?"
            text = f"{sanitize_line(server.name)}: {changes_text(server.changes)} ({looks} in the list shows what differs)"
        elif server.state is ServerState.LOGIN:
            title, text = "Open this in your browser, to log in?", sanitize_line(server.problem)
        else:
            words = f"{sanitize_line(server.name)}: {escape_invisible_line(server.words)}\n{sanitize_line(server.source)}"
            title, text = "Let this server start?", words
        if await self.app.push_screen_wait(Confirm(title, text)):
            self._servers.accept(server.name)

    def do_switch(self, server: McpServer) -> None:
        """Switch a server on or off."""
        self._servers.enable(server.name, is_on=server.state is ServerState.OFF)

    def do_run(self, server: McpServer) -> None:
        """Start a server again."""
        self._servers.restart(server.name)

    async def do_output(self, server: McpServer) -> None:
        """Read the end of a server's log."""
        path = self._servers.log_file(server.name)
        said = [*await asyncio.to_thread(log_end, path), "", sanitize_line(str(path))]

        def lines(width: int) -> list[Line]:
            return [line for text in said for line in (whole_text(text, width) or [()])]

        _ = self.app.push_screen(Reading(f"Log of {sanitize_line(server.name)}", lines))


class McpController(FeatureController):
    """Answers the commands of servers."""

    def __init__(self, workbench: WorkbenchApi, host: SessionHost) -> None:
        super().__init__(workbench, host)
        self._servers = host.extensions[McpServers]
        self._one_form = asyncio.Lock()
        self._told: dict[str, ServerState] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"mcp.show": lambda _: self.workbench.app.push_screen(McpList(self._servers))}

    def start(self) -> None:
        """Say from now on when a server needs the user."""
        _ = self._servers.listen(self._tell)
        self._servers.answer_with(self._ask)
        self._tell()

    async def _ask(self, form: Form) -> Mapping[str, object] | None:
        """Put a server's questions before the user, one form at a time."""
        async with self._one_form:
            return await self.workbench.app.run_worker(ask_form(self.workbench.app, form), group="mcp-form").wait()

    def _tell(self) -> None:
        """Say once of each server what became of it."""
        found = self._servers.servers()
        is_new = any(server.state in _NEEDS and self._told.get(server.name) is not server.state for server in found)
        self._told = {server.name: server.state for server in found}
        if is_new:
            self.workbench.say(notice([server for server in found if server.state in _NEEDS]), "warning")
