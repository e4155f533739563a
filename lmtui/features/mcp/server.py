"""One server's life: started late, watched, ended with lmtui; what broke is started again at the next call, not too often."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import logging
import re
import shlex
import time
import webbrowser
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.core.errors import ConfigError, McpError, SandboxError, SandboxUnavailable
from lmtui.core.ports import ToolResult
from lmtui.core.programs import Launch
from lmtui.core.sanitize import Redactor, sanitize_line
from lmtui.core.tool_servers import Ask, Form, Resource, ask_nobody, is_web_address
from lmtui.features.mcp.mcp_config import ServerEntry, expand, secrets_of
from lmtui.features.mcp.server_trust import Memory
from lmtui.features.mcp.tool_names import RawTool, changes_of, harmless
from lmtui.features.mcp.values import ConnectionHooks, LinkBroken, McpPrompt, ServerAddress, ServerState, ToolChange
from lmtui.paths import path_inside
from lmtui.sandbox.instance_programs import InstanceLauncher

if TYPE_CHECKING:
    from lmtui.features.mcp.sdk import SdkConnection

_NO_NETWORK = (
    "eai_again", "enotfound", "enetunreach", "econnrefused", "getaddrinfo", "name resolution", "resolve host", "dns error",
    "network is unreachable", "network request", "failed to fetch", "client error (connect)", "no route to host",
    "network was disabled",
)  # fmt: skip


def on_host_hint(entry: ServerEntry) -> str:
    """Return how a server that no sandbox here can hold is let run all the same."""
    return f"`lmtui mcp set {shlex.quote(entry.name)} --where host` lets it run on this machine without one."


def advice(entry: ServerEntry, said: str, place: str = "") -> str:
    """Return what to try for an entry that failed and said this; empty where nothing is known.

    Args:
        entry: the server.
        said: why it failed and what it said last.
        place: what is around it, in words.
    """
    if entry.kind != "stdio" or entry.on_host or "not isolated" in place:
        return ""
    low = said.lower()
    if re.search("the program .+ is not there|cannot be started: no such file", low):
        if " " in entry.command[0]:
            return 'Its "command" has several words: put those after the program into "args".'
        return f"Its sandbox cannot run the program. {on_host_hint(entry)}"
    if "*" in entry.hosts or not any(sign in low for sign in _NO_NETWORK):
        return ""
    has = f"It reaches only {', '.join(entry.hosts)}" if entry.hosts else "It has no network in its sandbox"
    return f"{has}: run `lmtui mcp set {shlex.quote(entry.name)} --network on` (or name the hosts that it needs)."


async def _browse(url: str) -> object:
    """Open an address in the user's browser; what is none for browsers is not opened."""
    return is_web_address(url) and await asyncio.to_thread(webbrowser.open, url)


@dataclass(slots=True)
class ServerEnvironment:
    """What every server of a workspace has in common.

    `launcher` returns what starts programs, `browse` opens an address in the user's browser.  `environ` is where variables in
    entries are looked up.  What a server asks in the middle of a call is put before `ask`.
    """

    workspace: Path
    launcher: Callable[[], Awaitable[InstanceLauncher | None]]
    environ: Mapping[str, str]
    on_change: Callable[[], None] = lambda: None
    browse: Callable[[str], Awaitable[object]] = _browse
    ask: Ask = ask_nobody


async def address_of(memory: Memory, around: ServerEnvironment, parts: contextlib.AsyncExitStack) -> ServerAddress:
    """Return where a server is; a program is started, and ends with `parts`.

    Raises:
        ConfigError: a variable is not set.
        McpError: no sandbox for it.
        SandboxError: it does not start.
    """
    entry = memory.entry
    where = f"{entry.source}: server {entry.name!r}"

    def filled(text: str) -> str:
        return expand(text, around.environ, around.workspace, where)

    if entry.kind != "stdio":
        headers = {name: filled(value) for name, value in entry.headers}
        oauth = {name: filled(value) for name, value in entry.oauth}
        has_key = any(name.lower() == "authorization" for name in headers)
        tokens = None if has_key else memory.token_file
        return ServerAddress(around.workspace, None, filled(entry.url), headers, tokens, oauth)
    launcher = await around.launcher()
    if launcher is None:
        raise McpError("no sandbox that it could run in", on_host_hint(entry))
    cwd = filled(entry.cwd)
    launch = Launch(
        tuple(filled(word) for word in entry.command),
        {name: filled(value) for name, value in entry.env},
        str(Path(cwd).relative_to(around.workspace)) if Path(cwd).is_relative_to(around.workspace) else cwd,
        entry.hosts,
        tuple(filled(folder) for folder in entry.toolchains),
        entry.can_write,
        entry.on_host,
        entry.memory_mb,
        shows_added=entry.is_own,
        keeps=hashlib.sha256(f"{entry.source}\0{entry.name}".encode("utf-8", "surrogateescape")).hexdigest()[:24],
    )
    memory.log.begin(f"{around.workspace}: {entry.words}")
    process = await launcher.open(launch, memory.log.add)
    parts.push_async_callback(process.close)
    is_inside = not entry.on_host and "not isolated" not in process.place and not process.place.startswith("landlock")
    return ServerAddress(Path(path_inside(around.workspace)) if is_inside else around.workspace, process)


_TEXT_CHARS = 120
_NAME_CHARS = 40
_MOST_NAMES = 20


def form_words(form: Form, given: Mapping[str, object] | None, *, is_alone: bool = False) -> str:
    """Return what was asked and whether it was answered: the names of fields, never what was filled in."""
    asked = f"[the server asked the user {harmless(form.text, _TEXT_CHARS)!r}: "
    if given is None:
        return asked + ("declined, as nobody is there to answer]" if is_alone else "the user declined]")
    if form.url:
        return f"{asked}the user opened {sanitize_line(form.url.partition('?')[0])[:_TEXT_CHARS]}]"
    names = [sanitize_line(str(name))[:_NAME_CHARS] for name in list(given)[:_MOST_NAMES]]
    return f"{asked}the user accepted and filled in {', '.join(names) or 'nothing'}]"


_log = logging.getLogger(__name__)
_SDK = "lmtui.features.mcp.sdk"
_LONGEST_PAUSE_S = 60.0
_SHORT_LIFE_S = 10.0
_OFFERS_S = 10.0
_LOGIN_S = 600.0


class RunningServer:
    """A server that may run: its state, its tools, and calls to them.

    `problem` is why it does not run, and `hint` what helps.  `held` are tools that wait for the user, as they are others than
    were accepted, and `changes` how they differ.  `version` is what it said last of itself; `has_resources`: it answers for
    some, listed or not.
    """

    def __init__(self, memory: Memory, around: ServerEnvironment) -> None:
        self.memory, self._around = memory, around
        self.state = ServerState.ENDED
        self.problem = self.hint = self.place = self.version = ""
        memory.log.redactor = Redactor(secrets_of(memory.written, around.environ))
        self.tools: tuple[RawTool, ...] = memory.known.tools
        self.held: tuple[RawTool, ...] = ()
        self.changes: tuple[ToolChange, ...] = ()
        self.prompts: Sequence[McpPrompt] = ()
        self.resources: Sequence[Resource] = ()
        self.has_resources = memory.known.has_resources
        self._task: asyncio.Task[None] | None = None
        self._connection: SdkConnection | None = None
        self._settled = asyncio.Event()
        self._reports: set[str] = set()  # what the connection said since it was looked at last: other tools, other offers
        self._wake, self._is_gone, self._logs_in = asyncio.Event(), False, False
        self._failures, self._not_before_s = 0, 0.0  # in a row; on the monotonic clock
        self._login_url = ""
        self._may_log_in = asyncio.Event()
        self._start_limit: asyncio.Timeout | None = None  # of the start that a login ends
        self._asked: dict[object, list[str]] = {}  # what was asked, and answered, during each call that is under way

    @property
    def entry(self) -> ServerEntry:
        """Return its entry as it runs."""
        return self.memory.entry

    def begin(self) -> None:
        """Start it, unless it runs."""
        if self._task is None or self._task.done():
            self._run()
            self.set_state(ServerState.STARTING)

    async def settle(self) -> None:
        """Wait until it is ready or is not going to be."""
        if self._task is not None and not self._task.done():
            await self._settled.wait()

    async def use(self, work: Callable[[SdkConnection], Awaitable[ToolResult]]) -> ToolResult:
        """Do `work` with its connection; starts the server where it has ended, unless it failed just now.

        Raises:
            McpError: it does not run, or the work failed.
        """
        connection = await self._connected()
        call, asked = object(), list[str]()
        self._asked[call] = asked
        try:
            async with await self._guarded() as notes, asyncio.timeout(self.entry.timeout_s):
                result = await work(connection)
            return replace(result, text="\n".join((result.text, *asked, *notes))) if asked or notes else result
        except TimeoutError as error:
            raise McpError(f"{self.entry.name} did not answer within {self.entry.timeout_s:g} s") from error
        except LinkBroken as error:
            self._note("gone")
            why = f"{self.entry.name} went away during the call ({error}); it may have been done all the same"
            raise McpError(why, "Look whether it was; the next call starts the server again.") from error
        finally:
            del self._asked[call]

    async def _ask_user(self, form: Form) -> Mapping[str, object] | None:
        """Put a form before the user, and note it with the last call under way; without one it is declined."""
        if not self._asked:
            return None
        notes, ask = next(reversed(self._asked.values())), self._around.ask
        found = await ask(form)
        notes.append(form_words(form, found, is_alone=ask is ask_nobody))
        return found

    async def _guarded(self) -> contextlib.AbstractAsyncContextManager[list[str]]:
        """Guard the workspace while a program of ours may write in it; a server elsewhere cannot."""
        may_write = self.entry.kind == "stdio" and self.entry.can_write
        launcher = await self._around.launcher() if may_write else None
        return launcher.guarded() if launcher is not None else contextlib.nullcontext([])

    def forget_tools(self) -> None:
        """Know no tools of it any more: what it offers next is taken as met for the first time."""
        self.tools, self.held, self.changes = self.memory.known.tools, (), ()

    def accept(self) -> None:
        """Take the tools as they are now, or let the user log in in their browser; it continues when they have."""
        if self.state is ServerState.CHANGED:
            self._keep(self.held)
            self.set_state(ServerState.READY)
        elif self.state is ServerState.LOGIN and self._task is not None and not self._task.done():
            self._may_log_in.set()  # a call waits for it
        elif self.state is ServerState.LOGIN:
            self._run(logs_in=True)

    async def close(self) -> None:
        """End it with everything that it started."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})  # how it ended is said by `_note_end`; a cancel of this passes on
        self._failures, self._not_before_s = 0, 0.0
        self.set_state(ServerState.ENDED)

    def _run(self, *, logs_in: bool = False) -> None:
        self._is_gone, self._logs_in, self._reports = False, logs_in, set()
        self._settled.clear()
        self._wake.clear()
        self._task = asyncio.create_task(self._live(logs_in=logs_in), name=f"mcp {self.entry.name}")
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Say so where it ended in a way that nobody thought of."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the MCP server %s failed inside", self.entry.name, exc_info=error)
            self._fail(f"internal error: {sanitize_line(str(error))[:200]}", hint="See lmtui.log.")

    async def _connected(self) -> SdkConnection:
        if self._connection is None:
            if self._is_gone and self._task is not None:
                await asyncio.wait({self._task})  # what is left of the last one ends first
            wait_s = self._not_before_s - time.monotonic()
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

    async def _live(self, *, logs_in: bool) -> None:
        began, limit_s = time.monotonic(), _LOGIN_S if logs_in else self.entry.start_timeout_s
        try:
            async with asyncio.timeout(limit_s) as limit, contextlib.AsyncExitStack() as parts:
                self._start_limit, self._login_url = None if logs_in else limit, ""
                connection = await self._open(parts)
                await self._take_tools(connection)
                limit.reschedule(None)
                self._start_limit, self._logs_in = None, False
                began = time.monotonic()
                self.version, self._connection = connection.version, connection
                self.problem = self.hint = ""
                self.set_state(ServerState.CHANGED if self.held else ServerState.READY)
                await self._take_offers(connection)
                self._settled.set()
                await self._watch(connection)
            self._fail("it ended", ServerState.ENDED, is_early=time.monotonic() - began < _SHORT_LIFE_S)
        except TimeoutError:
            if self._login_url:
                self._need_login()
            else:
                why = f"it was not ready within {limit_s:g} s"
                self._fail(why, hint="Its log may say why; start_timeout_s sets the limit.")
        except SandboxUnavailable as error:
            self._fail(str(error), hint=on_host_hint(self.entry))
        except (McpError, SandboxError, ConfigError) as error:
            self._fail(str(error), hint=error.hint)
        finally:
            self._connection = None
            self._settled.set()

    async def _open(self, parts: contextlib.AsyncExitStack) -> SdkConnection:
        sdk = await asyncio.to_thread(importlib.import_module, _SDK)
        address = await address_of(self.memory, self._around, parts)
        self.place = address.process.place if address.process is not None else ""
        hooks = ConnectionHooks(self._note, self._ask_user, self._visit, self.memory.log.redactor)
        connection: SdkConnection = await parts.enter_async_context(sdk.connect(self.entry, address, hooks))
        return connection

    async def _take_tools(self, connection: SdkConnection) -> None:
        """Take a list of tools; one that is not as it was accepted is held back."""
        found = tuple(await connection.list_tools())
        if self.memory.accepts(found):
            self._keep(found)
        else:
            self.held, self.changes = found, await asyncio.to_thread(changes_of, self.tools, found)

    def _keep(self, tools: Sequence[RawTool]) -> None:
        self.tools, self.held, self.changes = tuple(tools), (), ()
        self.memory.accept(self.tools)

    async def _take_offers(self, connection: SdkConnection) -> None:
        """Take its prompts and resources; one that does not answer in time keeps those that were known."""
        try:
            async with asyncio.timeout(min(_OFFERS_S, self.entry.timeout_s)):
                self.prompts, self.resources, self.has_resources = await connection.list_offers()
        except TimeoutError:
            _log.info("the MCP server %s did not list its prompts and resources in time", self.entry.name)
            return
        if self.has_resources != self.memory.known.has_resources:
            self.memory.keep(replace(self.memory.known, has_resources=self.has_resources))
        self._around.on_change()

    async def _watch(self, connection: SdkConnection) -> None:
        """Wait until it has ended; another list of tools is looked at meanwhile."""
        while not self._is_gone:
            await self._wake.wait()
            self._wake.clear()
            reports, self._reports = self._reports, set()
            if "tools" in reports and not self._is_gone:
                await self._take_tools(connection)
                self.set_state(ServerState.CHANGED if self.held else ServerState.READY)
            if "offers" in reports and not self._is_gone:
                await self._take_offers(connection)

    async def _visit(self, url: str) -> None:
        """Wait for the user's yes to a login, then open their browser; a start does not wait, it is made again after it."""
        self._login_url = url
        if self._start_limit is not None:
            self._start_limit.reschedule(0)
            await asyncio.Event().wait()
        if not self._logs_in:  # a call waits for it
            self._may_log_in.clear()
            self._need_login()
            await self._may_log_in.wait()
            self.set_state(ServerState.READY)
        await self._around.browse(url)

    def _need_login(self) -> None:
        self.problem, self.hint = self._login_url, f"Open it from /mcp, or with: lmtui mcp login {self.entry.name}"
        self._settled.set()
        self.set_state(ServerState.LOGIN)

    def _note(self, what: str) -> None:
        if what == "gone":
            self._is_gone, self._connection = True, None
        self._reports.add(what)
        self._wake.set()

    def _fail(self, why: str, state: ServerState = ServerState.FAILED, *, hint: str = "", is_early: bool = True) -> None:
        self._failures = self._failures + 1 if is_early else 0
        pause_s = min(_LONGEST_PAUSE_S, 2.0 ** (self._failures - 2)) if self._failures > 1 else 0.0
        self._not_before_s = time.monotonic() + pause_s
        log = self.memory.log
        last = log.last if state is ServerState.FAILED else ""
        self.hint = advice(self.entry, f"{why}\n{log.tail}", self.place) or hint or f"Its log says more: {log.path}"
        self.problem = log.redactor.text(f"{why}; it said last: {last}" if last else why)
        self.set_state(state)

    def set_state(self, state: ServerState) -> None:
        """Say where it is."""
        self.state = state
        self._around.on_change()
