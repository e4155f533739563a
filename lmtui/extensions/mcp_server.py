"""One server's life: started late, watched, ended with lmtui; what broke is started again at the next call, not too often."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace

from lmtui.core.clean import clean_line
from lmtui.core.errors import ConfigError, McpError, SandboxError, SandboxUnavailable
from lmtui.core.forms import Ask
from lmtui.core.mcp import McpPrompt, McpResource, ServerState, ToolChange
from lmtui.core.ports import OutputSink, ToolResult
from lmtui.core.redaction import Redactor
from lmtui.extensions.mcp_address import Surroundings, address_of, guarded
from lmtui.extensions.mcp_advice import advice, on_host_hint
from lmtui.extensions.mcp_changes import changes_of
from lmtui.extensions.mcp_config import ServerEntry
from lmtui.extensions.mcp_forms import Questions
from lmtui.extensions.mcp_link import Connection, Hooks, LinkBroken
from lmtui.extensions.mcp_memory import Memory
from lmtui.extensions.mcp_names import RawTool, tools_digest
from lmtui.extensions.mcp_offers import told_prompts, told_resources
from lmtui.extensions.mcp_secrets import secrets_of

_log = logging.getLogger(__name__)
_SDK = "lmtui.extensions.mcp_sdk"
_LONGEST_PAUSE_S = 60.0
_SHORT_LIFE_S = 10.0
_OFFERS_S = 10.0


class RunningServer:
    """A server that may run: its state, its tools, and calls to them.  `offered` are others than were accepted.

    `prompts` and `resources` are as it listed them last; `has_resources`: it answers for some, listed or not.
    """

    def __init__(self, memory: Memory, around: Surroundings) -> None:
        self.memory = memory
        self.state = ServerState.ENDED
        self.problem = self.hint = self.place = self.version = ""
        self._redactor = memory.log.redactor = Redactor(secrets_of(memory.written, around.environ))
        self.tools: tuple[RawTool, ...] = memory.known.tools
        self._around = around
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._settled = asyncio.Event()
        self._wake = asyncio.Event()
        self.prompts: tuple[McpPrompt, ...] = ()
        self.resources: tuple[McpResource, ...] = ()
        self.has_resources = memory.known.has_resources
        self._is_gone = self._lists_anew = self._offers_anew = False
        self._failures = 0
        self._not_before = 0.0
        self.offered: tuple[RawTool, ...] = ()
        self.changes: tuple[ToolChange, ...] = ()
        self._limit: asyncio.Timeout | None = None
        self._login_url = ""
        self._login_yes = asyncio.Event()
        self._questions = Questions()

    @property
    def entry(self) -> ServerEntry:
        """Return its entry as it runs."""
        return self.memory.entry

    @property
    def is_known(self) -> bool:
        """Tell whether its tools are known: from now, or from the last time that it ran."""
        return bool(self.memory.known.tools_digest)

    def begin(self) -> None:
        """Start it, unless it runs."""
        if self._task is None or self._task.done():
            self._is_gone = False
            self._settled.clear()
            self._wake.clear()
            self._set(ServerState.STARTING)
            self._run(self._live())

    def rest(self, state: ServerState) -> None:
        """Say why it does not run."""
        self._set(state)

    async def settle(self) -> None:
        """Wait until it is ready or is not going to be."""
        if self._task is not None and not self._task.done():
            await self._settled.wait()

    async def call(self, tool: str, arguments: Mapping[str, object], on_output: OutputSink, ask: Ask) -> ToolResult:
        """Call a tool; starts the server where it has ended, unless it failed just now.

        Raises:
            McpError: it does not run, or the call failed.
        """
        timeout_s = self.entry.timeout_s
        return await self._ask(lambda connection: connection.call(tool, arguments, on_output, timeout_s), ask)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], ask: Ask) -> ToolResult:
        """Return what a prompt says; the rest is as for `call`."""
        return await self._ask(lambda connection: connection.get_prompt(name, arguments), ask)

    async def read_resource(self, uri: str, ask: Ask) -> ToolResult:
        """Return what a resource holds; the rest is as for `call`."""
        return await self._ask(lambda connection: connection.read_resource(uri), ask)

    async def _ask(self, work: Callable[[Connection], Awaitable[ToolResult]], ask: Ask) -> ToolResult:
        connection = await self._connected()
        try:
            with self._questions.during(ask) as asked:
                async with guarded(self.entry, self._around) as notes, asyncio.timeout(self.entry.timeout_s):
                    result = await work(connection)
            return replace(result, text="\n".join((result.text, *asked, *notes))) if asked or notes else result
        except TimeoutError as error:
            raise McpError(f"{self.entry.name} did not answer within {self.entry.timeout_s:g} s") from error
        except LinkBroken as error:
            self._note_gone()
            why = f"{self.entry.name} went away during the call ({error}); it may have been done all the same"
            raise McpError(why, "Look whether it was; the next call starts the server again.") from error

    def accept_tools(self) -> None:
        """Take the tools as they are now."""
        if self.state is ServerState.CHANGED:
            self._keep(self.offered)
            self._set(ServerState.READY)

    def forget_tools(self) -> None:
        """Know no tools of it any more: what it offers next is taken as met for the first time."""
        self.tools, self.offered, self.changes = self.memory.known.tools, (), ()

    def log_in(self) -> None:
        """Let the user log in in their browser; it goes on when they have."""
        if self.state is ServerState.LOGIN and self._task is not None and not self._task.done():
            self._login_yes.set()  # a call waits for it
        elif self.state is ServerState.LOGIN:
            self._is_gone = False
            self._settled.clear()
            self._run(self._log_in())

    async def close(self, state: ServerState = ServerState.ENDED) -> None:
        """End it with everything that it started."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})  # how it ended is said by `_note_end`; a cancel of this passes on
        self._failures, self._not_before = 0, 0.0
        self._set(state)

    def _run(self, life: Coroutine[object, object, None]) -> None:
        self._task = asyncio.create_task(life, name=f"mcp {self.entry.name}")
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Say so where it ended in a way that nobody thought of."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the MCP server %s failed inside", self.entry.name, exc_info=error)
            self._fail(f"it failed inside lmtui: {clean_line(str(error))[:200]}", hint="lmtui.log says where.")

    async def _connected(self) -> Connection:
        if self._connection is None:
            if self._is_gone and self._task is not None:
                await asyncio.wait({self._task})  # what is left of the last one ends first
            wait_s = self._not_before - self._around.monotonic()
            if wait_s > 0 and (self._task is None or self._task.done()):
                raise McpError(f"{self.entry.name}: {self.problem}; it is tried again in {wait_s:.0f} s", self.hint)
            self.begin()
            await self.settle()
        if self.state is ServerState.CHANGED:
            raise McpError(
                f"the tools of {self.entry.name} changed, so they are held back", "The user has to look at them: /mcp."
            )
        if self._connection is None:
            raise McpError(f"{self.entry.name} does not run: {self.problem or self.state}", self.hint)
        return self._connection

    async def _live(self) -> None:
        began = self._around.monotonic()
        try:
            async with asyncio.timeout(self.entry.start_timeout_s) as limit, contextlib.AsyncExitStack() as parts:
                self._limit, self._login_url = limit, ""
                connection = await self._open(parts)
                await self._take_tools(connection)
                limit.reschedule(None)
                self._limit = None
                began = self._around.monotonic()
                self.version, self._connection = connection.version, connection
                self.problem = self.hint = ""
                self._set(ServerState.CHANGED if self.offered else ServerState.READY)
                await self._take_offers(connection)
                self._settled.set()
                await self._watch(connection)
            self._fail("it ended", ServerState.ENDED, is_early=self._around.monotonic() - began < _SHORT_LIFE_S)
        except TimeoutError:
            if self._login_url:
                self._need_login()
            else:
                why = f"it was not ready within {self.entry.start_timeout_s:g} s"
                self._fail(why, hint="Its log may say why; start_timeout_s sets the limit.")
        except SandboxUnavailable as error:
            self._fail(str(error), hint=on_host_hint(self.entry))
        except (McpError, SandboxError, ConfigError) as error:
            self._fail(str(error), hint=error.hint)
        finally:
            self._connection = None
            self._settled.set()

    async def _open(self, parts: contextlib.AsyncExitStack) -> Connection:
        sdk = await asyncio.to_thread(importlib.import_module, _SDK)
        place = await address_of(self.entry, self.memory, self._around, parts)
        self.place = place.words
        hooks = Hooks(
            (place.root,),
            self._note_gone,
            self._note_tools,
            self._note_offers,
            self._questions.ask,
            self._visit,
            self._redactor,
        )
        connection: Connection = await parts.enter_async_context(sdk.connect(self.entry, place.address, hooks))
        return connection

    async def _take_tools(self, connection: Connection) -> None:
        """Take a list of tools; one that is not as it was accepted is held back."""
        found = tuple(await connection.list_tools())
        known = self.memory.known.tools_digest
        if known and known != tools_digest(found):
            self.changes = await asyncio.to_thread(changes_of, self.tools, found)
            self.offered = found
        else:
            self._keep(found)

    def _keep(self, tools: Sequence[RawTool]) -> None:
        self.tools, self.offered, self.changes = tuple(tools), (), ()
        self.memory.keep(replace(self.memory.known, tools=self.tools, tools_digest=tools_digest(tools)))

    async def _take_offers(self, connection: Connection) -> None:
        """Take its prompts and resources; one that does not answer in time keeps those that were known."""
        try:
            async with asyncio.timeout(min(_OFFERS_S, self.entry.timeout_s)):
                found = await connection.list_offers()
        except TimeoutError:
            _log.info("the MCP server %s did not list its prompts and resources in time", self.entry.name)
            return
        self.prompts = told_prompts(self.entry.name, found.prompts)
        self.resources = told_resources(self.entry.name, found.resources)
        self.has_resources = found.has_resources
        if self.has_resources != self.memory.known.has_resources:
            self.memory.keep(replace(self.memory.known, has_resources=self.has_resources))
        self._around.on_change()

    async def _watch(self, connection: Connection) -> None:
        """Wait until it has ended; another list of tools is looked at meanwhile."""
        while not self._is_gone:
            await self._wake.wait()
            self._wake.clear()
            if self._lists_anew and not self._is_gone:
                self._lists_anew = False
                await self._take_tools(connection)
                self._set(ServerState.CHANGED if self.offered else ServerState.READY)
            if self._offers_anew and not self._is_gone:
                self._offers_anew = False
                await self._take_offers(connection)

    async def _visit(self, url: str) -> None:
        """Wait for the user's yes to a login, then open their browser; a start does not wait, it is made again after it."""
        self._login_url = url
        if self._limit is not None:
            self._limit.reschedule(0)
            await asyncio.Event().wait()
        self._login_yes.clear()
        self._need_login()
        await self._login_yes.wait()
        self._set(ServerState.READY)
        await self._around.browse(url)

    async def _log_in(self) -> None:
        """Log in, then start."""
        try:
            sdk = await asyncio.to_thread(importlib.import_module, _SDK)
            async with contextlib.AsyncExitStack() as parts:
                place = await address_of(self.entry, self.memory, self._around, parts)
                await sdk.log_in(place.address, self._around.browse)
        except (McpError, ConfigError) as error:
            self._fail(str(error), hint=error.hint)
            self._settled.set()
            return
        await self._live()

    def _need_login(self) -> None:
        self.problem, self.hint = self._login_url, "Open it from /mcp, or with: lmtui mcp login " + self.entry.name
        self._settled.set()
        self._set(ServerState.LOGIN)

    def _note_gone(self) -> None:
        self._is_gone = True
        self._connection = None
        self._wake.set()

    def _note_tools(self) -> None:
        self._lists_anew = True
        self._wake.set()

    def _note_offers(self) -> None:
        self._offers_anew = True
        self._wake.set()

    def _fail(self, why: str, state: ServerState = ServerState.FAILED, *, hint: str = "", is_early: bool = True) -> None:
        self._failures = self._failures + 1 if is_early else 0
        pause_s = min(_LONGEST_PAUSE_S, 2.0 ** (self._failures - 2)) if self._failures > 1 else 0.0
        self._not_before = self._around.monotonic() + pause_s
        last = self.memory.log.last if state is ServerState.FAILED else ""
        self.problem = self._redactor.text(f"{why}; it said last: {last}" if last else why)
        self.hint = (
            advice(self.entry, f"{why}\n{self.memory.log.tail}", self.place)
            or hint
            or f"Its log says more: {self.memory.log.path}"
        )
        self._set(state)

    def _set(self, state: ServerState) -> None:
        self.state = state
        self._around.on_change()
