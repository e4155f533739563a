"""Programs that keep running: commands in the background, servers, and a session's Python interpreter.

Background commands are read, fed and stopped later, and end with the session.  Each server has its own instance, in the same
kind of sandbox as commands, with its own variables and its own way out; without a sandbox only where the user named that.  The
interpreter begins at its first use and keeps its names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import codecs
import contextlib
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.core.hosts import parse_pattern
from lmtui.core.messages import MAX_IMAGE_BYTES, MAX_IMAGES, Image, sniff
from lmtui.core.programs import FETCHERS, CodeResult, Launch, Served
from lmtui.core.sanitize import last_states, sanitize, sanitize_line
from lmtui.core.workspace import BackgroundCommand, CommandLimits
from lmtui.paths import kept_dir, path_inside
from lmtui.sandbox import replies
from lmtui.sandbox.backend import FULL, GUEST, Backend
from lmtui.sandbox.guest import protocol
from lmtui.sandbox.host_paths import make_for_owner
from lmtui.sandbox.package_indexes import certificates_of
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.project_tools import ProjectTools, Shown, fetching, with_allowed, with_program
from lmtui.sandbox.proxy import Proxy
from lmtui.sandbox.supervisor_client import Answer, Client, InstanceKind, to_the_end
from lmtui.sandbox.toolchains import check_toolchains
from lmtui.sandbox.workspace_guard import Findings, GuardMoment

_log = logging.getLogger(__name__)
_MOST_UNREAD_BYTES, _PIECE_BYTES = 67_108_864, 262_144
_HOME = "/opt/lmtui/home"
# npx runs what it finds in its cache, also what a kill left half made there; npm writes this file last.
_MEND = 'for each in ~/.npm/_npx/*; do [ -e "$each/node_modules/.package-lock.json" ] || rm -rf "$each"; done; exec "$@"'
_MENDED = ("/bin/sh", "-c", _MEND, "sh")
_ON_HOST = 'Name it in its entry with `"sandbox": "host"` if it may run on this machine without one.'

MakeBackend = Callable[[str, Launch, Proxy | None], Backend]

_FOREVER_S = 10.0 * 365 * 86_400
_MOST_RUNNING = 16
_MOST_UNREAD_CHARS = 65_536
_INPUT_S, _FULL_PIPE_S, _UNREAD_PIPE_S = 5.0, 0.01, 0.05
_PIPE_BYTES = 65_536


@dataclass(slots=True, eq=False)
class _Entry:
    """One command: `unread` is what it said since it was last read, `dropped_chars` what was too much to keep."""

    command: str
    client: Client
    moment: GuardMoment | None
    id: str = ""
    began_s: float = field(default_factory=time.monotonic)
    ended_s: float = 0.0
    exit_code: int | None = None
    why: str = ""
    unread: str = ""
    dropped_chars: int = 0
    number: int = 0
    notes: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    parts: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def take(self, text: str) -> None:
        whole = self.unread + text
        self.dropped_chars += max(0, len(whole) - _MOST_UNREAD_CHARS)
        self.unread = whole[-_MOST_UNREAD_CHARS:]
        self.news.set()

    def shown(self) -> BackgroundCommand:
        elapsed_s = (self.ended_s or time.monotonic()) - self.began_s
        return BackgroundCommand(self.id, self.command, elapsed_s, self.exit_code, self.why)


class SandboxBackground:
    """The background commands of one session; implements `core.workspace.BackgroundCommands`.

    They run where other commands run.  `why_not` says why none can be started, empty where they can.
    """

    def __init__(self, pool: SandboxPool, limits: CommandLimits, *, why_not: str = "") -> None:
        self._pool, self._limits, self._why_not = pool, limits, why_not
        self._entries: dict[str, _Entry] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}  # each until its command has ended
        self._untold: list[str] = []
        self._on_change: Callable[[], None] = lambda: None

    def watch(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def commands(self) -> Sequence[BackgroundCommand]:
        return [entry.shown() for entry in self._entries.values()]

    async def start(self, command: str) -> BackgroundCommand:
        if self._why_not:
            raise SandboxError(self._why_not)
        if len(self._tasks) >= _MOST_RUNNING:
            raise SandboxError(f"{_MOST_RUNNING} background commands run already", "Stop one.")
        fields = {"command": command, "timeout_s": _FOREVER_S, "memory_mb": self._limits.memory_mb, "takes_input": True}
        async with contextlib.AsyncExitStack() as parts:
            client = await parts.enter_async_context(self._pool.staying_client())
            entry = _Entry(command, client, await self._begin())
            live = replies.LiveOutput(entry.take, str)
            entry.number, answer = client.begin("run", fields, on_output=live)
            parts.callback(live.finish)
            entry.parts = parts.pop_all()
        entry.id = f"b{len(self._entries) + 1}"
        self._entries[entry.id], self._tasks[entry.id] = entry, asyncio.create_task(self._keep(entry, answer))
        await asyncio.sleep(0)  # a task that is cancelled before it began cleans up nothing
        self._on_change()
        return entry.shown()

    async def read(self, identity: str, wait_s: float = 0.0) -> tuple[str, BackgroundCommand]:
        entry = self._entry(identity)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await entry.news.wait()
        if entry.exit_code is None:
            await self._look(entry)
        text, dropped = sanitize(last_states(entry.unread)), entry.dropped_chars
        notes, entry.unread, entry.dropped_chars, entry.notes = "\n".join(entry.notes), "", 0, []
        if entry.exit_code is None:
            entry.news.clear()
        elif entry.id in self._untold:
            self._untold.remove(entry.id)
        text = f"… {dropped:,} characters left out …\n{text}" if dropped else text
        return f"{text.rstrip()}\n{notes}".strip("\n") if notes else text, entry.shown()

    async def send(self, identity: str, text: str) -> None:
        entry = self._entry(identity)
        if entry.exit_code is not None:
            raise SandboxError(f"{identity} has ended (exit code {entry.exit_code})")
        data = text.encode("utf-8", "surrogatepass")
        if (taken := await _give(entry.client, entry.number, data)) < len(data):
            raise SandboxError(f"{identity} took {taken:,} of {len(data):,} bytes: it does not read its input")

    async def stop(self, identity: str) -> BackgroundCommand:
        entry = self._entry(identity)
        if (task := self._tasks.get(entry.id)) is not None:
            entry.why = "stopped"
            await entry.client.stop(entry.number)
            await asyncio.wait({task})
        return entry.shown()

    def take_endings(self) -> Sequence[BackgroundCommand]:
        ended, self._untold = self._untold, []
        return [self._entries[identity].shown() for identity in ended]

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, entry: _Entry, answer: asyncio.Future[Answer]) -> None:
        exit_code = 137
        try:
            async with entry.parts:
                try:
                    facts, _ = await asyncio.shield(answer)  # which a cancel would end
                except asyncio.CancelledError:
                    await entry.client.stop(entry.number)
                    raise
                finally:
                    await self._look(entry, is_last=True)
                reply = replies.parse(facts, replies.RunReply)
                exit_code, entry.why = reply.exit, entry.why or ("" if reply.reason == "exit" else reply.reason)
        except SandboxError as error:
            entry.why = str(error)
        finally:
            entry.exit_code, entry.ended_s = exit_code, time.monotonic()
            entry.news.set()
            self._tasks.pop(entry.id, None)
            if entry.why != "stopped":
                self._untold.append(entry.id)
            self._on_change()

    async def _begin(self) -> GuardMoment | None:
        """Remember what is there, so that what the command leaves for programs outside is recognised."""
        is_isolated = (await self._pool.started()).backend.is_isolated
        return await self._pool.workspace_guard.begin() if is_isolated else None

    async def _look(self, entry: _Entry, *, is_last: bool = False) -> None:
        """Set aside what the command left for programs outside; the next look goes back to before this one."""
        async with entry.looking:
            if (moment := entry.moment) is None:
                return
            try:
                entry.moment = None if is_last else await self._begin()
                entry.notes += (await to_the_end(self._pool.workspace_guard.end(moment))).notes
            except SandboxError as error:
                entry.notes.append(f"[{error.full_text()}]")

    def _entry(self, identity: str) -> _Entry:
        entry = self._entries.get(identity.strip())
        if entry is None:
            known = ", ".join(self._entries) or "no such command. Background commands end with lmtui"
            raise SandboxError(f"no background command {identity[:40]!r}: {known}")
        return entry


async def _give(client: Client, number: int, data: bytes) -> int:
    """Give a program input, and return how many bytes it took at once."""
    return (await client.ask(replies.CountReply, "input", {"target": number}, data, limit_s=_INPUT_S))[0].count


class ServedProgram:
    """One program in an instance that runs; implements `core.programs.Served`.

    `parts` end with it.

    Raises:
        SandboxError: the instance is gone.
    """

    def __init__(self, place: str, client: Client, fields: dict[str, object], on_error: Callable[[bytes], None]) -> None:
        self.place, self._client, self._on_error = place, client, on_error
        self.parts = contextlib.AsyncExitStack()
        self._pieces = asyncio.StreamReader()
        self._unread_bytes = 0
        self._closing: asyncio.Future[None] | None = None
        self._number, self._ended = client.begin("serve", fields, on_output=self._take, on_error=on_error)
        self._ended.add_done_callback(self._tell_end)

    def _take(self, data: bytes, _skipped_bytes: int) -> None:
        self._unread_bytes += len(data)
        if self._unread_bytes <= _MOST_UNREAD_BYTES:
            self._pieces.feed_data(data)
        elif self._closing is None:
            self._on_error(b"ended by lmtui: it wrote too much output\n")
            _ = self._begin_to_close()

    async def read(self) -> bytes:
        piece = await self._pieces.read(_PIECE_BYTES)
        self._unread_bytes -= len(piece)
        return piece

    async def write(self, data: bytes) -> None:
        if self._ended.done():
            raise SandboxError("the program has ended")
        while data:
            piece = data[:_PIPE_BYTES]
            taken = await _give(self._client, self._number, piece)
            data = data[taken:]
            if taken < len(piece):
                await asyncio.sleep(_FULL_PIPE_S if taken else _UNREAD_PIPE_S)

    async def close(self) -> None:
        await asyncio.shield(self._begin_to_close())

    def _begin_to_close(self) -> asyncio.Future[None]:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self.parts.aclose())
            self._closing.add_done_callback(lambda _: self._pieces.feed_eof())
        return self._closing

    def _tell_end(self, ended: asyncio.Future[Answer]) -> None:
        if ended.cancelled() or (error := ended.exception()) is not None:
            text = "" if ended.cancelled() or self._closing is not None else f"lmtui: {error}\n"
        else:
            facts, _ = ended.result()
            why = facts.get("error") or f"it ended ({facts.get('reason')}, exit code {facts.get('exit')})"
            text = f"lmtui: {sanitize_line(str(why))[:500]}\n"
        if text:
            self._on_error(text.encode())
        self._pieces.feed_eof()


class _OnlyListed:
    """Lets a server reach what its entry names, and nothing else; the log says what it reached."""

    async def may_reach(self, host: str, *, is_listed: bool = False, what: str = "") -> bool:
        del what
        if not is_listed:
            _log.info("a server asked for %s, which its entry does not name", sanitize_line(host))
        return is_listed

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        _log.info("a server reached %s: %d bytes sent, %d received %s", host, sent_bytes, received_bytes, why_not)


class InstanceLauncher:
    """Starts programs for one workspace.  `make` makes its own backend for a program."""

    def __init__(self, workspace: Path, pool: SandboxPool, make: MakeBackend) -> None:
        self._workspace, self._pool, self._make = workspace, pool, make

    async def open(self, launch: Launch, on_error: Callable[[bytes], None]) -> Served:
        """Start a program in its own place; `on_error` gets what it says next to its output.

        Raises:
            SandboxError: it cannot be started; the text says why, the hint what to do.
        """
        name = await self._backend_name(launch)
        can_write = launch.can_write and name != "landlock"  # which has no mounts that keep .git from it
        patterns = tuple(map(parse_pattern, launch.hosts)) if "*" not in launch.hosts else ()
        proxy = Proxy(patterns, _OnlyListed) if patterns else None
        try:
            backend = self._make(name, launch, proxy)
            if not launch.on_host:
                tools = (await self._pool.started()).backend.tools
                backend.tools = await asyncio.to_thread(self._tools, tools, launch)
        except UsageError as error:
            raise SandboxUnavailable(str(error), error.hint) from error
        async with contextlib.AsyncExitStack() as parts:
            if proxy is not None:
                parts.push_async_callback(proxy.close)
            kind = InstanceKind.SERVER if can_write else InstanceKind.READING_SERVER
            instance = self._pool.instance(kind, backend, shows_added=launch.shows_added)
            client = await parts.enter_async_context(instance)
            place, fields = _words(backend, launch, can_write=can_write), self._fields(launch, is_isolated=backend.has_mounts)
            process = ServedProgram(place, client, fields, on_error)
            process.parts = parts.pop_all()
        return process

    @contextlib.asynccontextmanager
    async def guarded(self) -> AsyncIterator[list[str]]:
        """Guard the workspace while a program does something in it, as around a command.

        What it made for programs outside (`.git`, `.vscode` …) is moved aside at the end; the list then says what, in words.

        Raises:
            SandboxError: no sandbox to look from, or something could not be moved aside.
        """
        notes, findings = list[str](), list[Findings]()
        async with self._pool.command_client(findings):
            yield notes
        notes += [note for found in findings for note in found.notes]

    def _tools(self, tools: ProjectTools, launch: Launch) -> ProjectTools:
        """Return what the program sees of the user's tools; what it fetches is there at its next start."""
        program = launch.program or launch.arguments[0]
        named = [Path(folder).expanduser() for folder in launch.toolchains]
        for folder, added in product(named, self._pool.outside.writable):
            if folder.is_relative_to(added):
                raise UsageError(f"{folder} cannot hold tools of a server: commands may change {added}.")
        tools = with_allowed(tools, check_toolchains(named, self._workspace), self._workspace)
        tools = with_program(tools if launch.shows_added else tools.without_added(), program, self._workspace)
        if launch.hosts and Path(program).name in FETCHERS:
            packages = make_for_owner(kept_dir("packages", self._workspace), self._workspace)
            tools = fetching(tools, packages, certificates_of(os.environ))
        if launch.keeps:
            home = make_for_owner(kept_dir("homes", self._workspace) / launch.keeps, self._workspace)
            tools = replace(tools, shown=tools.shown | {_HOME: Shown(_HOME, home, "what this program keeps", is_writable=True)})
        return tools

    async def _backend_name(self, launch: Launch) -> str:
        if launch.on_host:
            return "process"
        try:
            status = await self._pool.status()
        except SandboxUnavailable as error:
            raise SandboxUnavailable(f"the server cannot run: {error}", _ON_HOST) from error
        if launch.hosts and status.backend not in (*FULL, "process"):
            raise SandboxUnavailable(f"{status.backend} has no proxy, so the server reaches no hosts", _ON_HOST)
        return status.backend

    def _fields(self, launch: Launch, *, is_isolated: bool) -> dict[str, object]:
        """Return what the supervisor is told; the workspace's own path is put into the words of the instance."""
        root = self._workspace if is_isolated else None
        words = [_inside(word, root) for word in launch.arguments]
        variables = {name: _inside(value, root) for name, value in launch.variables.items()}
        if launch.keeps and is_isolated:
            variables = {"HOME": _HOME, **variables}
            words = [*_MENDED, *words] if Path(words[0]).name == "npx" else words
        if launch.hosts:
            variables = {"NODE_USE_ENV_PROXY": "1", **variables}  # or fetch in Node passes the proxy by
        return {"arguments": words, "variables": variables, "folder": launch.folder, "memory_mb": launch.memory_mb}


def _inside(word: str, workspace: Path | None) -> str:
    """Return a word with the workspace's path as the instance has it."""
    root = str(workspace)
    if workspace is not None and (word == root or word.startswith(root + os.sep)):
        return path_inside(workspace) + word[len(root) :]
    return word


def _words(backend: Backend, launch: Launch, *, can_write: bool) -> str:
    if launch.on_host:
        return "this machine, no sandbox"
    network = "no network"
    if launch.hosts:
        network = "network on" if "*" in launch.hosts else f"{len(launch.hosts)} host{'s' * (len(launch.hosts) > 1)}"
    if not backend.is_isolated:
        return f"{backend.name}: not isolated"
    return f"{backend.name}, {network}{'' if can_write else ', workspace read-only'}"


_STOP_S = 3.0
_MAX_FRAME_BYTES = 8_388_608
_MAX_HELD_CHARS = 400_000


@dataclass(slots=True)
class _Held:
    """What one piece of code has shown so far: the beginning and the end of what it printed, and pictures."""

    head: str = ""
    tail: str = ""
    total: int = 0
    images: list[Image] = field(default_factory=list)

    def take(self, text: str) -> None:
        self.total += len(text)
        room = _MAX_HELD_CHARS // 2 - len(self.head)
        self.head += text[:room] if room > 0 else ""
        self.tail = (self.tail + (text[room:] if room > 0 else text))[-_MAX_HELD_CHARS // 2 :]

    @property
    def text(self) -> str:
        left_out = self.total - len(self.head) - len(self.tail)
        between = f"\n[… {left_out:,} characters left out …]\n" if left_out else ""
        return sanitize(last_states(self.head + between + self.tail))


class _Spoken:
    """Tells what code prints from its interpreter's lines; see `guest/interpreter.py`."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(16)
        self._mark = f"\0{self.word}".encode()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest, self._line = b"", bytearray()

    def feed(self, piece: bytes) -> Iterator[str | protocol.Message]:
        """Take up bytes, and yield the text and the lines that they complete.

        Raises:
            ProtocolError: a line that is not a JSON object, or has no end.
        """
        text, *marked = (self._rest + piece).split(self._mark)
        self._rest = b""
        for part in marked:
            yield self._decoder.decode(text)
            line, end, text = part.partition(b"\n")
            if len(self._line) + len(line) > _MAX_FRAME_BYTES or not (end or part is marked[-1]):
                raise protocol.ProtocolError("a line without an end")
            if not end:
                self._rest = self._mark + part
            elif line.endswith(b"\\"):
                self._line += line[:-1]
            else:
                yield protocol.parse(bytes(self._line + line))
                self._line.clear()
        begun = text.rfind(b"\0", -len(self._mark)) if not self._rest else -1
        if begun >= 0 and self._mark.startswith(text[begun:]):
            text, self._rest = text[:begun], text[begun:]
        yield self._decoder.decode(text)


class SandboxInterpreter:
    """Implements `core.interpreter.Interpreter`; `hosts` are patterns of hosts that the code may reach."""

    def __init__(self, launcher: Callable[[], Awaitable[InstanceLauncher | None]], hosts: tuple[str, ...] = ()) -> None:
        self._launcher, self._hosts = launcher, hosts
        self._turn = asyncio.Lock()
        self._process: Served | None = None
        self._spoken = _Spoken()
        self._unread: deque[str | protocol.Message] = deque()

    async def run(self, code: str, *, timeout_s: float, on_output: Callable[[str], None]) -> CodeResult:
        async with self._turn:
            async with (await self._found()).guarded() as left:
                ran = await self._run(code, timeout_s, on_output)
            return replace(ran, left=tuple(left))

    async def _run(self, code: str, timeout_s: float, on_output: Callable[[str], None]) -> CodeResult:
        is_fresh = self._process is None
        process = self._process or await self._begin()
        held, is_ok, is_lost, is_timed_out = _Held(), False, False, False
        try:
            async with asyncio.timeout(timeout_s):
                await process.write(protocol.encode({"code": code}, _MAX_FRAME_BYTES))
                is_ok = await self._until_done(process, held, on_output)
        except TimeoutError:
            is_timed_out, is_lost = True, not await self._stop(process, held, on_output)
        except (protocol.ProtocolError, SandboxError):
            is_lost = True
            await self._end()
        except asyncio.CancelledError:
            await to_the_end(self._stop(process, held, on_output))
            raise
        return CodeResult(held.text, is_ok, tuple(held.images), is_fresh, is_lost, is_timed_out, held.total)

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def _found(self) -> InstanceLauncher:
        launcher = await self._launcher()
        if launcher is None:
            raise SandboxUnavailable("no sandbox works here, so there is no Python", "The user can look: lmtui doctor.")
        return launcher

    async def _begin(self) -> Served:
        source = (GUEST / "interpreter.py").read_text(encoding="utf-8")
        self._spoken, self._unread = _Spoken(), deque()
        arguments = ("python3", "-I", "-u", "-X", "utf8", "-c", source, self._spoken.word)
        launch = Launch(arguments, {"MPLBACKEND": "Agg"}, hosts=self._hosts, shows_added=True)
        self._process = await (await self._found()).open(launch, lambda _: None)
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()

    async def _stop(self, process: Served, held: _Held, on_output: Callable[[str], None]) -> bool:
        """Stop what runs; False where it did not let itself be stopped, and is ended with all that it knew."""
        try:
            async with asyncio.timeout(_STOP_S):
                await process.write(protocol.encode({"stop": True}))
                await self._until_done(process, held, on_output)
        except (TimeoutError, protocol.ProtocolError, SandboxError):
            await self._end()
            return False
        return True

    async def _until_done(self, process: Served, held: _Held, on_output: Callable[[str], None]) -> bool:
        while True:
            spoken = await self._next(process)
            if isinstance(spoken, str):
                held.take(spoken)
                on_output(sanitize(spoken))
                await asyncio.sleep(0)  # however much it is, the screen gets its turn
            elif "image" in spoken and len(held.images) < MAX_IMAGES:
                held.images += _image(spoken["image"], len(held.images) + 1)
            elif "done" in spoken:
                return spoken["done"] is True

    async def _next(self, process: Served) -> str | protocol.Message:
        """Return the next text or line; what is waited for no longer stays unread as a whole.

        Raises:
            ProtocolError: the interpreter has ended, or says what no line can be.
        """
        while not self._unread:
            if not (piece := await process.read()):
                raise protocol.ProtocolError("the interpreter has ended")
            self._unread += filter(None, self._spoken.feed(piece))
        return self._unread.popleft()


def _image(told: object, number: int) -> list[Image]:
    with contextlib.suppress(binascii.Error, ValueError):
        data = base64.b64decode(str(told), validate=True)
        if sniff(data) == "image/png" and len(data) <= MAX_IMAGE_BYTES:
            return [Image(f"figure {number}", "image/png", data)]
    return []
