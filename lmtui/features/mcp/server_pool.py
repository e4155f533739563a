"""All MCP servers of one workspace: which may start, what each has, and the user's hand on them.

Nothing here is on the way to the first frame, and a server that is broken keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.core.errors import McpError
from lmtui.core.ports import OutputSink, TokenCounter, ToolResult
from lmtui.core.sanitize import pluralize
from lmtui.core.tool_servers import Ask, Reach, Resource
from lmtui.features.mcp.mcp_config import ServerEntry, ServerFiles, checked_entry, read_servers, secrets_of
from lmtui.features.mcp.server import RunningServer, ServerEnvironment, advice
from lmtui.features.mcp.server_trust import Memory, set_reach
from lmtui.features.mcp.tool_names import RawTool, listing, server_key, told_tools
from lmtui.features.mcp.values import McpPrompt, McpServer, McpTool, ServerState
from lmtui.sandbox.instance_programs import InstanceLauncher


class McpRoom:
    """Implements `McpServers`.

    Args:
        workspace: the folder that is worked in.
        launcher: returns what starts programs, None where nothing can.
        environ: where the variables of entries are looked up.
        count_tokens: prices tools.
    """

    def __init__(
        self,
        workspace: Path,
        launcher: Callable[[], Awaitable[InstanceLauncher | None]],
        environ: Mapping[str, str],
        count_tokens: TokenCounter,
    ) -> None:
        self._workspace = workspace
        self._around = ServerEnvironment(workspace, launcher, environ, self._changed)
        self._files = ServerFiles()
        self._brought: dict[str, ServerEntry] = {}
        self.started: dict[str, RunningServer] = {}
        self._listeners: list[Callable[[], object]] = []
        self._loading: asyncio.Task[None] | None = None
        self._count = count_tokens
        self._priced: dict[str, tuple[tuple[RawTool, ...], bool, tuple[McpTool, ...]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def settle(self, limit_s: float) -> None:
        await self.loaded()
        waits = [asyncio.ensure_future(server.settle()) for server in self.started.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=limit_s)
            for each in late:
                each.cancel()

    async def loaded(self) -> None:
        """Wait until the files are read and what may start is started; the first call begins that."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(), name="mcp servers")
        await asyncio.shield(self._loading)

    def bring(self, entries: Mapping[str, Mapping[str, object]], source: str) -> None:
        self._brought = {name: checked_entry(name, dict(entry), source, is_own=True) for name, entry in entries.items()}

    def is_unknown(self) -> bool:
        """Tell whether a server starts whose tools are not known from an earlier time."""
        starting = [server for server in self.started.values() if server.state is ServerState.STARTING]
        return not all(server.memory.known.tools_digest for server in starting)

    def _tools_of(self, server: RunningServer) -> tuple[McpTool, ...]:
        """Return a server's tools as told."""
        name, reads = server.entry.name, server.has_resources
        kept = self._priced.get(name)
        if kept is None or kept[:2] != (server.tools, reads):
            taken = {tool.name for other, (*_, told) in self._priced.items() if other != name for tool in told}
            found = told_tools(name, server.tools, taken, reads=reads)
            kept = server.tools, reads, tuple(replace(tool, tokens=self._price(tool)) for tool in found)
            self._priced[name] = kept
        return kept[2]

    def _shown(self, server: RunningServer) -> McpServer:
        """Return a server as front ends see it."""
        tools, entry = self._tools_of(server), server.entry
        place = server.place or ("this machine, no sandbox" if entry.on_host else "" if entry.kind == "stdio" else "network")
        problem = "" if server.state in (ServerState.READY, ServerState.STARTING) else server.problem
        hint = server.hint if problem else ""
        if server.state is ServerState.STARTING:
            hint = advice(entry, server.memory.log.tail, server.place)
        counts = ((len(server.prompts), "prompt"), (len(server.resources), "resource"))
        return McpServer(
            entry.name,
            entry.source,
            server.state,
            entry.kind,
            place,
            entry.words,
            tools,
            problem,
            hint,
            server.version,
            told_tools(entry.name, server.held, set()),
            server.changes,
            entry.warnings,
            entry.reach_words,
            ", ".join(pluralize(count, thing) for count, thing in counts if count),
        )

    def _price(self, tool: McpTool) -> int:
        return self._count(json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters}))

    def servers(self) -> Sequence[McpServer]:
        return [self._shown(server) for server in self.started.values()]

    def problems(self) -> Sequence[str]:
        return self._files.problems

    def listen(self, on_change: Callable[[], object]) -> Callable[[], None]:
        self._listeners.append(on_change)
        return lambda: self._listeners.remove(on_change) if on_change in self._listeners else None

    def restart(self, name: str) -> None:
        if (server := self.started.get(name)) is not None:
            server.memory.look_again()  # where it may run may have been chosen meanwhile
            if server.memory.resting_state is None:
                self._run(self._begin_again(server))

    def enable(self, name: str, *, is_on: bool) -> None:
        if (server := self.started.get(name)) is not None:
            server.memory.keep(replace(server.memory.known, is_on=is_on))
            self._run(self._begin_again(server))

    def accept(self, name: str) -> None:
        if (server := self.started.get(name)) is None:
            return
        if server.state in (ServerState.CHANGED, ServerState.LOGIN):
            server.accept()
        else:
            server.memory.consent.keep([server.memory.mark])
            self._run(self._begin_again(server))

    def choose_reach(self, name: str, reach: Reach) -> None:
        _ = set_reach(self._workspace, name, reach)
        self.look_again()

    def look_again(self) -> None:
        """Start those that the user said yes to meanwhile, here or elsewhere, and end those whose yes was taken back.

        One that the user lets run elsewhere than before begins again.
        """
        for server in self.started.values():
            entry = server.entry
            server.memory.look_again()
            if server.entry != entry:
                self._run(self._begin_again(server))
            elif entry.needs_yes and server.state in (ServerState.WAITING, ServerState.REFUSED):
                self._begin(server)
            elif entry.needs_yes and server.memory.resting_state is not None:
                server.forget_tools()
                self._run(self._begin_again(server))

    def secrets(self) -> tuple[str, ...]:
        """Return the values of all entries that look like secrets; none of them may be stored or shown to a model."""
        return tuple(value for entry in self._files.entries for value in secrets_of(entry, self._around.environ))

    def log_file(self, name: str) -> Path:
        return self.started[name].memory.log.path

    def tools(self) -> tuple[McpTool, ...]:
        """Return the tools that may be called, by server and name; those of a server that starts are as they were last time."""
        return tuple(tool for server in self._open() for tool in self._tools_of(server))

    def details(self, tool: McpTool) -> tuple[Mapping[str, object], str]:
        """Return a tool's schema as its server gave it, and what is around the server."""
        server = self.started[tool.server]
        schemas = (each.schema for each in server.tools if each.name == tool.own_name)
        schema = tool.parameters if tool.reads else next(schemas, {})
        return schema, server.place or server.entry.url

    def prompts(self) -> tuple[McpPrompt, ...]:
        """Return the prompts of all servers, as far as they are known."""
        return tuple(prompt for server in self._open() for prompt in server.prompts)

    def resources(self) -> tuple[Resource, ...]:
        return tuple(each for server in self._open() for each in server.resources)

    def reader(self, key: str) -> McpTool | None:
        """Return the tool that reads resources of a server, by what means that in names."""
        return next((tool for tool in self.tools() if tool.reads and server_key(tool.server) == key), None)

    async def get_prompt(self, prompt: McpPrompt, arguments: Mapping[str, str]) -> ToolResult:
        """Return what a prompt says.

        Raises:
            McpError: it cannot be asked for, or the server refuses.
        """
        name, server = prompt.own_name, self._open_server(prompt.server)
        return await server.use(lambda connection: connection.get_prompt(name, arguments))

    def answer_with(self, ask: Ask) -> None:
        self._around.ask = ask

    async def call(self, tool: McpTool, arguments: Mapping[str, object], on_output: OutputSink) -> ToolResult:
        """Call a tool; the one that reads resources lists them where it gets no address.

        Raises:
            McpError: it cannot be called, or the server refuses.
        """
        server = self._open_server(tool.server)
        if not tool.reads:
            return await server.use(lambda connection: connection.call(tool.own_name, arguments, on_output))
        if uri := str(arguments.get("uri") or ""):
            return await server.use(lambda connection: connection.read_resource(uri))
        await server.settle()
        return ToolResult(listing(server.resources), pluralize(len(server.resources), "resource"))

    def _open(self) -> list[RunningServer]:
        return [server for server in tuple(self.started.values()) if server.state.is_open]

    def _open_server(self, name: str) -> RunningServer:
        server = self.started[name]
        if not server.state.is_open:
            raise McpError(f"server {name}: {server.state}", "The user can change that: /mcp.")
        return server

    async def close(self) -> None:
        """End every server; none is started again."""
        self._is_closed = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait({self._loading})
        self._listeners.clear()
        await asyncio.gather(*(server.close() for server in self.started.values()), *self._tasks, return_exceptions=True)

    async def _load(self) -> None:
        self._files, memories = await asyncio.to_thread(self._read)
        self.started |= {name: RunningServer(memory, self._around) for name, memory in memories.items()}
        for server in self.started.values():
            self._begin(server)
        self._changed()

    def _read(self) -> tuple[ServerFiles, dict[str, Memory]]:
        files = read_servers(self._workspace)
        own = {entry.name: entry for entry in files.entries} | self._brought
        files = replace(files, entries=tuple(own[name] for name in sorted(own)))
        return files, {entry.name: Memory(self._workspace, entry) for entry in files.entries}

    def _begin(self, server: RunningServer) -> None:
        if (state := server.memory.resting_state) is None:
            server.begin()
        else:
            server.set_state(state)

    async def _begin_again(self, server: RunningServer) -> None:
        await server.close()
        if not self._is_closed:
            self._begin(server)

    def _run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _changed(self) -> None:
        for listener in tuple(self._listeners):
            listener()
