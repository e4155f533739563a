"""The MCP servers of a workspace: their tools and prompts for its sessions, and for who only asks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.command_line import FAILURE, NONE, OK, TRUST_HINT, WARNING, CheckRow
from lmtui.core.errors import McpError, ToolError, UsageError
from lmtui.core.events import Envelope, Level, Notice, TurnStarted
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import MCP, Access
from lmtui.core.ports import PreparedCall, ToolContext, ToolResult
from lmtui.core.prompt_text import FilledPrompt, PromptFile, PromptFiles, TextPart, slash_call
from lmtui.core.sanitize import sanitize_line
from lmtui.core.subagents import ChildKind
from lmtui.core.tool_servers import READ_RESOURCE, ToolServers
from lmtui.engine.session import EngineSession
from lmtui.features.call_arguments import BroughtCall, fitted, read_arguments
from lmtui.features.mcp.mcp_config import read_servers
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.server_trust import Memory, servers_consent
from lmtui.features.mcp.tool_names import argument_hint, server_key, typed_arguments
from lmtui.features.mcp.values import WAIT_S, McpPrompt, McpServer, McpServers, McpTool, ServerState, changes_text, state_words
from lmtui.features.service import FeatureHost, Workspace, WorkspaceFeature
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools

BROKEN = (ServerState.FAILED, ServerState.ENDED, ServerState.STARTING)
_FIRST_MEETING_S = 10.0
_MARKS = {ServerState.READY: OK, ServerState.OFF: NONE, ServerState.REFUSED: NONE}
_ENTRY = "docs/mcp.md lists the keys of an entry; `lmtui mcp list` names its tools."
_TOLD = {
    ServerState.FAILED: "MCP server {name} does not run: {problem}  {hint}",
    ServerState.CHANGED: "MCP server {name} offers other tools than you accepted ({changes}): held back until you take them. "
    "`lmtui mcp list` shows what differs, y in /mcp takes them.",
    ServerState.WAITING: "MCP server {name} needs approval: `lmtui trust`.",
    ServerState.LOGIN: "MCP server {name} needs a login: `lmtui mcp login {name}`.",
}


def note_troubles(servers: McpServers, session: EngineSession) -> None:
    """Say once of each server why a session has to do without it, from the first turn on: before that nobody reads it."""
    told: dict[str, ServerState] = {}

    def look() -> None:
        for server in servers.servers():
            if told.get(server.name) is server.state or session.is_closed:
                continue
            told[server.name] = server.state
            if words := _TOLD.get(server.state):
                said = {key: sanitize_line(getattr(server, key)) for key in ("name", "problem", "hint")}
                text = words.format(**said, changes=changes_text(server.changes))
                session.emit(Notice(level=Level.WARNING, text=text.strip()))

    def begin(_: Envelope) -> None:
        leave()
        session.when_closed.append(servers.listen(look))
        asyncio.get_running_loop().call_soon(look)

    leave = session.subscribe(begin, TurnStarted)


def _room_of(workspace: Workspace) -> McpRoom:
    async def launcher() -> InstanceLauncher | None:
        return (await workspace.sandbox()).launcher

    return McpRoom(workspace.workspace, launcher, os.environ, workspace.count_tokens)


class McpService(WorkspaceFeature):
    """Gives sessions the tools and prompts of servers.

    Nothing starts before the first session is opened, and nothing here waits for a server, but for the one case that it says.
    """

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._room = _room_of(host)
        extensions.add(McpServers, self._room)
        extensions.add(ToolServers, self._room)
        self._is_on = host.config.mcp == "on"
        extensions.add(PromptFiles, AllPrompts(extensions.get(PromptFiles), self._room, is_on=self._is_on))
        answered = self._room.look_again
        self.trust = [servers_consent(host.workspace, is_own=is_own, answered=answered) for is_own in (False, True)]

    async def prepare(self) -> None:
        """Start the servers, and wait for what a session cannot begin without.

        A server that ran before is told about from memory and waited for when it is called.  One that is met for the first
        time has no tools to tell of yet: where nobody is there to see it come, the session waits for it a while.
        """
        if not self._is_on:
            return
        await self._room.loaded()
        if not self.host.is_attended and self._room.is_unknown():
            await self._room.settle(_FIRST_MEETING_S)

    def tools(self, own: ToolRegistry, kind: ChildKind | None = None) -> Sequence[BroughtTools]:
        """Return the tools of servers; a sub-agent that explores gets none, as it changes nothing."""
        found = McpTools(self._room, own.has)
        return () if kind is ChildKind.EXPLORE else [BroughtTools(found.offer, found.prepare, sources=(self._room.started,))]

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Say why a session has no server, where nobody is there to see it."""
        del is_ours
        if not self.host.is_attended:
            note_troubles(self._room, session)

    def secrets(self) -> Sequence[str]:
        """Return the values in entries of servers that look like secrets, as far as the files are read."""
        return self._room.secrets()

    async def close(self) -> None:
        """End every server."""
        await self._room.close()

    def problems(self) -> Sequence[str]:
        """Return what of the files cannot be read."""
        return read_servers(self.host.workspace).problems

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Start each server and see its tools, or tell only what the files name."""
        if is_offline:
            return _named_rows(self.host.workspace)
        try:
            check_workspace(self.host.workspace)
        except UsageError:
            return ()  # none can be tried in a folder that cannot be a workspace
        async with started_servers(self.host) as room:
            servers, problems = room.servers(), room.problems()
        rows = [CheckRow("mcp", FAILURE, sanitize_line(problem)) for problem in problems]
        for server in servers:
            state = FAILURE if server.state in BROKEN else _MARKS.get(server.state, WARNING)
            hint = TRUST_HINT if server.state is ServerState.WAITING else server.hint if state == FAILURE else ""
            rows += _rows(server.name, state, state_words(server, is_waited_for=True), hint, server.warnings)
        return rows


def _named_rows(workspace: Path) -> list[CheckRow]:
    """Tell what the files name; nothing is started.  Blocks (small files)."""
    files = read_servers(workspace)
    rows = [CheckRow("mcp", FAILURE, sanitize_line(problem)) for problem in files.problems]
    for memory in (Memory(workspace, entry) for entry in files.entries):
        entry = memory.entry
        rests = memory.resting_state
        state, hint = (WARNING, TRUST_HINT) if rests is ServerState.WAITING else (NONE, "")
        text = f"{rests or 'configured'}, not started (--offline): {entry.words}"
        rows += _rows(entry.name, state, text, hint, entry.warnings)
    return rows


def _rows(name: str, state: str, text: str, hint: str, warnings: Sequence[str]) -> list[CheckRow]:
    """Return the row of a server, and one of each warning."""
    found = [(state, text, hint), *((WARNING, sanitize_line(each), _ENTRY) for each in warnings)]
    return [CheckRow("mcp", level, f"{sanitize_line(name)}: {words}", way_out) for level, words, way_out in found]


@contextlib.asynccontextmanager
async def started_servers(workspace: Workspace) -> AsyncIterator[McpRoom]:
    """Start the servers that may start, wait until they are ready or are not going to be, and end them."""
    room = _room_of(workspace)
    try:
        await room.settle(WAIT_S)
        yield room
    finally:
        await room.close()


SEARCH = "mcp_search"
_MOST_FOUND = 5
_MOST_NAMED = 12
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_LEAST_CHARS = 3
_NAME_WEIGHT, _SERVER_WEIGHT = 4, 2


def search_spec(servers: Sequence[McpServer]) -> ToolSpec:
    """Return what the model is told: which servers there are, and how to find and call their tools."""
    names = [server.name[:24] for server in servers]
    listed = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
    text = f"Find tools of {listed} by words; call one by its name, or here."
    properties: dict[str, object] = {"query": {"type": "string"}, "call": {"type": "string"}, "arguments": {"type": "object"}}
    return ToolSpec(SEARCH, text, {"type": "object", "properties": properties})


def found_text(query: str, tools: Sequence[McpTool]) -> str:
    """Return the best few tools with their schemas, as the model reads them."""
    best = search(query, tools)
    if not best:
        servers = sorted({tool.server for tool in tools})
        return f"No tool fits {query[:80]!r}. Servers: {', '.join(servers) or 'none is ready'}. Try other words."
    lines = [
        f"{tool.name}: {tool.description}\n  arguments: {json.dumps(tool.parameters, ensure_ascii=False)}" for tool in best
    ]
    return "\n".join([*lines, f"({len(tools)} tools in all; call one by its name, or with {SEARCH} call=… arguments={{…}})"])


def search(query: str, tools: Sequence[McpTool], most: int = _MOST_FOUND) -> list[McpTool]:
    """Return the tools that have most of the words, but for their endings; those of names count more than other words."""
    wanted = {word[: max(_LEAST_CHARS, len(word) - 3)] for word in map(str.lower, _WORD.findall(query))}
    scores: dict[str, int] = {}
    for tool in tools:
        about = f"{tool.description} {json.dumps(tool.parameters.get('properties'))}"
        texts = ((_NAME_WEIGHT, tool.own_name), (_SERVER_WEIGHT, tool.server), (1, about))
        scores[tool.name] = sum(weight * sum(word in text.lower() for word in wanted) for weight, text in texts)
    return [tool for tool in sorted(tools, key=lambda tool: (-scores[tool.name], tool.name))[:most] if scores[tool.name]]


_PATIENCE_S = 10.0
_MARK = re.compile(r"<(?=/?prompt\b)", re.IGNORECASE)


class AllPrompts:
    """Implements `core.prompt_files.PromptFiles`.

    Args:
        files: those of Markdown files.
        room: the servers.
        is_on: servers are started.
    """

    def __init__(self, files: PromptFiles | None, room: McpRoom, *, is_on: bool) -> None:
        self._files, self._room, self._is_on = files, room, is_on

    def found(self) -> Sequence[PromptFile]:
        prompts = [_as_file(prompt) for prompt in self._room.prompts()]
        names = {prompt.name: prompt.source for prompt in prompts}
        files = [
            replace(each, problem=f"hidden by {names[each.name]}") if each.name in names else each
            for each in (self._files.found() if self._files is not None else ())
        ]
        return sorted((*files, *prompts), key=lambda file: (file.name, bool(file.problem)))

    async def read(self, text: str) -> FilledPrompt | None:
        name, words = slash_call(text.strip()) or ("", "")
        if self._is_on and name.startswith(MCP):
            if name not in {prompt.name for prompt in self._room.prompts()}:
                await self._room.settle(_PATIENCE_S)
            prompt = next((prompt for prompt in self._room.prompts() if prompt.name == name), None)
            if prompt is not None:
                return await self._filled(prompt, text.strip(), words)
        return await self._files.read(text) if self._files is not None else None

    async def _filled(self, prompt: McpPrompt, typed: str, words: str) -> FilledPrompt:
        said = await self._room.get_prompt(prompt, typed_arguments(prompt, words))
        pieces = (
            TextPart(f'{typed}\n\n<prompt from="MCP server {server_key(prompt.server)}">\n'),
            TextPart(_MARK.sub("‹", said.text), is_foreign=True),
            TextPart("\n</prompt>"),
        )
        return FilledPrompt(_as_file(prompt), pieces, said.images)


def _as_file(prompt: McpPrompt) -> PromptFile:
    source = f"MCP server {server_key(prompt.server)}"
    return PromptFile(prompt.name, "", source, prompt.description, argument_hint(prompt), is_own=False)


_SHARE = 0.05
_ASSUMED_WINDOW_TOKENS = 32_768


class McpTools:
    """The tools of servers for one conversation.

    Args:
        room: the servers.
        is_ours: tells whether a name is that of one of our own tools, in the place of which none of a server's is.
    """

    def __init__(self, room: McpRoom, is_ours: Callable[[str], bool]) -> None:
        self._room = room
        self._is_ours = is_ours

    def prepare(self, name: str, arguments: str) -> PreparedCall | None:
        """Check a call of one of them; None for other names."""
        wanted = name.strip()
        if wanted.lower() == SEARCH:
            return self._search(arguments)
        if wanted == READ_RESOURCE:
            return self._read(read_arguments(wanted, arguments))
        if wanted.lower().startswith(MCP):
            return self._call(self._named(wanted), read_arguments(wanted, arguments))
        alone = [tool for tool in self._room.tools() if _folded(tool.own_name) == _folded(wanted)]
        if len(alone) == 1 and not self._is_ours(wanted):
            return self._call(alone[0], read_arguments(wanted, arguments))
        return None

    def offer(self, tool_set: ToolSet, window_tokens: int) -> tuple[ToolSpec, ...]:
        """Return the tools with their schemas as far as they are worth their price, else one that finds them."""
        del tool_set
        tools = self._room.tools()
        share = int((window_tokens or _ASSUMED_WINDOW_TOKENS) * _SHARE)
        is_fitting = sum(tool.tokens for tool in tools) <= share
        told = tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools) if is_fitting else ()
        is_all = is_fitting and not self._room.is_unknown()
        servers = [server for server in self._room.servers() if server.state.is_open]
        return told if is_all or not servers else (*told, search_spec(servers))

    def _search(self, arguments: str) -> PreparedCall:
        given = read_arguments(SEARCH, arguments)
        if called := given.get("call") or given.get("name") or given.get("tool"):
            inner, tool = given.get("arguments"), self._named(str(called))
            return self._call(tool, inner if isinstance(inner, dict) else read_arguments(SEARCH, str(inner or "")))
        query = given.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ToolError(f"{SEARCH} needs query: a few words for what the tool should do, such as create issue")
        return BroughtCall(SEARCH, {"query": query}, {}, {}, self._found, access=Access.NONE)

    async def _found(self, given: Mapping[str, object], context: ToolContext) -> ToolResult:
        del context  # it touches nothing
        await self._room.settle(_PATIENCE_S if self._room.is_unknown() else 0)
        return ToolResult(found_text(str(given["query"]), self._room.tools()), "tools of servers")

    def _read(self, given: Mapping[str, object]) -> PreparedCall:
        tool = self._room.reader(str(given.get("server", "")))
        if tool is None:
            raise ToolError(f"no MCP server {str(given.get('server', ''))[:40]!r} with resources is ready")
        return self._call(tool, {"uri": given.get("uri", "")})

    def _call(self, tool: McpTool, arguments: Mapping[str, object]) -> PreparedCall:
        schema, place = self._room.details(tool)

        async def perform(given: Mapping[str, object], context: ToolContext) -> ToolResult:
            try:
                return await self._room.call(tool, given, context.on_output)
            except McpError as error:
                raise ToolError(str(error), error.hint) from error

        limits = f"server {tool.server}" + (f", {place}" if place else "")
        subjects = (f"{tool.server}/{tool.own_name}",)
        return BroughtCall(tool.name, fitted(arguments, schema), schema, tool.parameters, perform, subjects, limits=limits)

    def _named(self, name: str) -> McpTool:
        tools = self._room.tools()
        for fold in (str, _folded):
            found = [tool for tool in tools if fold(tool.name) == fold(name) or fold(tool.own_name) == fold(name)]
            exact = next((tool for tool in found if fold(tool.name) == fold(name)), None)
            if exact is not None or len(found) == 1:
                return exact or found[0]
        closed = next((server for server in self._room.servers() if name.startswith(f"{MCP}{server_key(server.name)}__")), None)
        if closed and (not closed.state.is_open or (closed.problem and not closed.tools)):
            why = f"server {closed.name}: {', '.join(filter(None, (closed.state, closed.problem)))}"
            raise ToolError(f"{name[:64]} cannot be called now; {why}", "The user can look: /mcp.")
        raise ToolError(f"no tool {name[:64]!r}. Find one with {SEARCH}, by words for what it should do.")


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")
