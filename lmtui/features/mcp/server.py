"""One server's life: started late, watched, ended with lmtui; what broke is started again at the next call, not too often."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from lmtui.core.errors import ConfigError, McpError, SandboxError, SandboxUnavailable
from lmtui.core.ports import OutputSink, ToolResult
from lmtui.core.sanitize import Redactor, sanitize_line
from lmtui.core.tool_servers import Ask, Form, Resource, ask_nobody
from lmtui.features.mcp.mcp_config import ServerEntry, variables_in
from lmtui.features.mcp.server_connection import (
    ConnectionHooks,
    LinkBroken,
    ServerEnvironment,
    address_of,
    advice,
    guarded,
    on_host_hint,
)
from lmtui.features.mcp.server_trust import Memory
from lmtui.features.mcp.tool_names import RawTool, harmless, told_schema
from lmtui.features.mcp.values import McpPrompt, ServerState, ToolChange

if TYPE_CHECKING:
    from lmtui.features.mcp.sdk import SdkConnection

_MOST_LINES_OF_ONE = 30
_MOST_LINES = 400
_CHANGE_NAME_CHARS = 80
_WORD_CHARS = 600
_VALUE_CHARS = 200
_HIDDEN = "  something that the model is not told: hidden signs, or what lies beyond the length that is told"


def changes_of(accepted: Sequence[RawTool], offered: Sequence[RawTool]) -> tuple[ToolChange, ...]:
    """Return what was added, removed and changed, in this order, each by name; once there are too many lines, only names."""
    before, after = _by_name(accepted), _by_name(offered)
    kinds = {"added": after.keys() - before.keys(), "removed": before.keys() - after.keys()}
    kinds["changed"] = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    found: list[ToolChange] = []
    for kind, key in ((kind, key) for kind, keys in kinds.items() for key in sorted(keys)):
        lines = [*_differing(_flat(before.get(key)), _flat(after.get(key)))] or [_HIDDEN] * (kind == "changed")
        more = [f"  and {len(lines) - _MOST_LINES_OF_ONE} more lines"] if len(lines) > _MOST_LINES_OF_ONE else []
        has_room = sum(len(change.lines) for change in found) < _MOST_LINES
        shown = (*lines[:_MOST_LINES_OF_ONE], *more) if has_room else ()
        found.append(ToolChange(kind, sanitize_line(key[0])[:_CHANGE_NAME_CHARS], shown))
    return tuple(found)


def _by_name(tools: Sequence[RawTool]) -> dict[tuple[str, int], RawTool]:
    """Return tools by name; of several with one name each has a number."""
    seen: Counter[str] = Counter()
    found: dict[tuple[str, int], RawTool] = {}
    for tool in tools:
        found[tool.name, seen[tool.name]] = tool
        seen[tool.name] += 1
    return found


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for path in dict.fromkeys((*before, *after)):
        for sign, side in (("-", before), ("+", after)):
            if path in side and before.get(path) != after.get(path):
                yield f"{sign} {path and f'{path}: '}{side[path]}"


def _flat(tool: RawTool | None) -> dict[str, str]:
    """Return a description, and a schema as paths with values, in their order: `path.type` with `"string"`."""
    if tool is None:
        return {}
    words = harmless(tool.description, _WORD_CHARS)
    told = {name: part for name, part in told_schema(tool.schema).items() if name != "type"}
    return ({"": words} if words else {}) | dict(_leaves("", told))


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            inner = path if name == "properties" and isinstance(part, Mapping) else f"{path}.{name}" if path else str(name)
            yield from _leaves(inner, part)
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for number, part in enumerate(value, 1):
            yield from _leaves(f"{path}.{number}", part)
    elif path:
        yield path[-_VALUE_CHARS:], json.dumps(value, ensure_ascii=False)[:_VALUE_CHARS]


_TEXT_CHARS = 120
_NAME_CHARS = 40
_MOST_NAMES = 20


class Questions:
    """The calls of one server that are under way, and what is asked during each."""

    def __init__(self) -> None:
        self._open: dict[object, tuple[Ask, list[str]]] = {}

    @contextlib.contextmanager
    def during(self, ask: Ask) -> Iterator[list[str]]:
        """Put what is asked until the block ends before `ask`; the list then says what was asked and answered."""
        call, notes = object(), list[str]()
        self._open[call] = ask, notes
        try:
            yield notes
        finally:
            del self._open[call]

    async def ask(self, form: Form) -> Mapping[str, object] | None:
        """Put a form before who made the call that is under way; None declines it."""
        if not self._open:
            return None
        ask, notes = next(reversed(self._open.values()))
        found = await ask(form)
        notes.append(form_words(form, found, is_alone=ask is ask_nobody))
        return found


def form_words(form: Form, given: Mapping[str, object] | None, *, is_alone: bool = False) -> str:
    """Return what was asked and whether it was answered: the names of fields, never what was filled in."""
    asked = f"[the server asked the user {harmless(form.text, _TEXT_CHARS)!r}: "
    if given is None:
        return asked + ("declined, as nobody is there to answer]" if is_alone else "the user declined]")
    if form.url:
        return f"{asked}the user opened {sanitize_line(form.url.partition('?')[0])[:_TEXT_CHARS]}]"
    names = [sanitize_line(str(name))[:_NAME_CHARS] for name in list(given)[:_MOST_NAMES]]
    return f"{asked}the user accepted and filled in {', '.join(names) or 'nothing'}]"


_NAMES = r"token|secret|passw|passphrase|api.?key|credential|auth(?!or)|private|cookie|(^|[_-])(key|pat|pin|pwd)($|[_-])"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9]{16,}")
_FEWEST_OF_EACH = 3


def secrets_of(entry: ServerEntry, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that an entry holds or takes from the environment and that look like secrets."""
    return tuple(dict.fromkeys(value for value in _secrets(entry, environ) if value))


def _secrets(entry: ServerEntry, environ: Mapping[str, str]) -> Iterator[str]:
    options = [(name, word) for name, word in pairwise(entry.command) if name.startswith("-")]
    options += [(word.partition("=")[0], word.partition("=")[2]) for word in entry.command]
    for name, text in (*entry.env, *entry.headers, *entry.oauth, *options, ("", entry.url)):
        variables = variables_in(text)
        if not variables:
            yield from _parts(name, text)
        for variable in variables:
            yield from _parts(f"{name}_{variable}", environ.get(variable, ""))


def _parts(name: str, value: str) -> Iterator[str]:
    """Yield a value that is a secret by its name or by its looks, with and without the scheme before it (`Bearer …`)."""
    if "://" in value:
        yield from _of_address(value)
    elif _is_made(value) or (_SECRET_NAME.search(name) and not value.startswith(("/", "~/", "./", "../"))):
        yield value
        yield from value.split() if " " in value else ()


def _is_made(value: str) -> bool:
    """Tell whether a value has a long word of letters and digits mixed, as no person names a thing or a place."""
    counts = [(sum(map(str.isdigit, word)), len(word)) for word in _WORD.findall(value)]
    return any(_FEWEST_OF_EACH <= digits <= length - _FEWEST_OF_EACH for digits, length in counts)


def _of_address(text: str) -> Iterator[str]:
    """Yield the password of an address, and what of its query is one."""
    try:
        found = urlsplit(text)
        password = found.password or ""
    except ValueError:
        return
    yield from (password, unquote(password))
    yield from (value for name, value in parse_qsl(found.query) if _SECRET_NAME.search(name))


_log = logging.getLogger(__name__)
_SDK = "lmtui.features.mcp.sdk"
_LONGEST_PAUSE_S = 60.0
_SHORT_LIFE_S = 10.0
_OFFERS_S = 10.0


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
        self._wake, self._is_gone = asyncio.Event(), False
        self._failures, self._not_before_s = 0, 0.0  # in a row; on the monotonic clock
        self._login_url = ""
        self._may_log_in = asyncio.Event()
        self._start_limit: asyncio.Timeout | None = None  # of the start that a login ends
        self._questions = Questions()

    @property
    def entry(self) -> ServerEntry:
        """Return its entry as it runs."""
        return self.memory.entry

    def begin(self) -> None:
        """Start it, unless it runs."""
        if self._task is None or self._task.done():
            self._renew()
            self._set(ServerState.STARTING)
            self._run(self._live())

    def rest(self, state: ServerState) -> None:
        """Say why it does not run."""
        self._set(state)

    def _renew(self) -> None:
        self._is_gone, self._reports = False, set()
        self._settled.clear()
        self._wake.clear()

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

    async def _ask(self, work: Callable[[SdkConnection], Awaitable[ToolResult]], ask: Ask) -> ToolResult:
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
            self._keep(self.held)
            self._set(ServerState.READY)

    def forget_tools(self) -> None:
        """Know no tools of it any more: what it offers next is taken as met for the first time."""
        self.tools, self.held, self.changes = self.memory.known.tools, (), ()

    def log_in(self) -> None:
        """Let the user log in in their browser; it continues when they have."""
        if self.state is ServerState.LOGIN and self._task is not None and not self._task.done():
            self._may_log_in.set()  # a call waits for it
        elif self.state is ServerState.LOGIN:
            self._renew()
            self._run(self._log_in())

    async def close(self) -> None:
        """End it with everything that it started."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})  # how it ended is said by `_note_end`; a cancel of this passes on
        self._failures, self._not_before_s = 0, 0.0
        self._set(ServerState.ENDED)

    def _run(self, life: Coroutine[object, object, None]) -> None:
        self._task = asyncio.create_task(life, name=f"mcp {self.entry.name}")
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Say so where it ended in a way that nobody thought of."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the MCP server %s failed inside", self.entry.name, exc_info=error)
            self._fail(f"it failed inside lmtui: {sanitize_line(str(error))[:200]}", hint="lmtui.log says where.")

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

    async def _live(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.entry.start_timeout_s) as limit, contextlib.AsyncExitStack() as parts:
                self._start_limit, self._login_url = limit, ""
                connection = await self._open(parts)
                await self._take_tools(connection)
                limit.reschedule(None)
                self._start_limit = None
                began = time.monotonic()
                self.version, self._connection = connection.version, connection
                self.problem = self.hint = ""
                self._set(ServerState.CHANGED if self.held else ServerState.READY)
                await self._take_offers(connection)
                self._settled.set()
                await self._watch(connection)
            self._fail("it ended", ServerState.ENDED, is_early=time.monotonic() - began < _SHORT_LIFE_S)
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

    async def _open(self, parts: contextlib.AsyncExitStack) -> SdkConnection:
        sdk = await asyncio.to_thread(importlib.import_module, _SDK)
        address = await address_of(self.entry, self.memory, self._around, parts)
        self.place = address.place
        hooks = ConnectionHooks(
            (address.root,),
            self._note_gone,
            lambda: self._note("tools"),
            lambda: self._note("offers"),
            self._questions.ask,
            self._visit,
            self.memory.log.redactor,
        )
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
        self.memory.accept(self.tools, self.place)

    async def _take_offers(self, connection: SdkConnection) -> None:
        """Take its prompts and resources; one that does not answer in time keeps those that were known."""
        try:
            async with asyncio.timeout(min(_OFFERS_S, self.entry.timeout_s)):
                self.prompts, self.resources, self.has_resources = await connection.list_offers(self.entry.name)
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
                self._set(ServerState.CHANGED if self.held else ServerState.READY)
            if "offers" in reports and not self._is_gone:
                await self._take_offers(connection)

    async def _visit(self, url: str) -> None:
        """Wait for the user's yes to a login, then open their browser; a start does not wait, it is made again after it."""
        self._login_url = url
        if self._start_limit is not None:
            self._start_limit.reschedule(0)
            await asyncio.Event().wait()
        self._may_log_in.clear()
        self._need_login()
        await self._may_log_in.wait()
        self._set(ServerState.READY)
        await self._around.browse(url)

    async def _log_in(self) -> None:
        """Log in, then start."""
        try:
            sdk = await asyncio.to_thread(importlib.import_module, _SDK)
            async with contextlib.AsyncExitStack() as parts:
                await sdk.log_in(await address_of(self.entry, self.memory, self._around, parts), self._around.browse)
        except (McpError, ConfigError) as error:
            self._fail(str(error), hint=error.hint)
            self._settled.set()
            return
        await self._live()

    def _need_login(self) -> None:
        self.problem, self.hint = self._login_url, f"Open it from /mcp, or with: lmtui mcp login {self.entry.name}"
        self._settled.set()
        self._set(ServerState.LOGIN)

    def _note_gone(self) -> None:
        self._is_gone, self._connection = True, None
        self._wake.set()

    def _note(self, what: str) -> None:
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
        self._set(state)

    def _set(self, state: ServerState) -> None:
        self.state = state
        self._around.on_change()
