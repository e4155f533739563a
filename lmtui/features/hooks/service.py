"""The hooks of a session: read when it is opened, called together, each in its place.

What a folder brings runs only where the user said yes to it as it is, and in the sandbox; the user's own run on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from lmtui.command_line import FAILURE, OK, TRUST_HINT, WARNING, CheckRow
from lmtui.core.errors import SandboxError
from lmtui.core.hooks import HookCall, HookEvent, Hooks, HookVerdict
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Mode, Verdict
from lmtui.core.permissions.shell_grammar import outline, unquoted, word_set
from lmtui.core.programs import Launch, Launcher, Served
from lmtui.core.sanitize import sanitize_line
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent, FolderContent, folders_with_yes
from lmtui.features.hooks.hook_answers import HookResult, together
from lmtui.features.hooks.hook_config import (
    HookEntry,
    HookEnvironment,
    HookFiles,
    matched_names,
    meets,
    odd_matchers,
    our_input,
    payload,
    read_hooks,
)
from lmtui.features.service import FeatureHost, SessionServices, WorkspaceFeature
from lmtui.paths import sessions_dir
from lmtui.plain_files import find_program
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ToolRegistry

MAX_OUTPUT_BYTES, MAX_ERROR_BYTES = 1_048_576, 65_536
_MOST_READ_BYTES = 16_777_216
_PIECE_BYTES = 65_536
_AFTERWARDS_S, _KILLED_S = 0.5, 5.0
_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "COLORTERM", "VIRTUAL_ENV",
})  # fmt: skip
_PROGRAM = re.compile(r"/?[\w.+/-]+")
_ENDED = b"lmtui: it ended"  # what an instance says behind the program's own words
# `head` ends at the last byte of the input, so that the hook meets its end; the last line says how the hook ended
_IN_LANE = 'told=$1 mark=$2; shift 2; head -c "$told" | CLAUDE_PROJECT_DIR="$PWD" "$@"; printf "\\n%s%d" "$mark" "$?"'
_SHELL = ("/bin/sh", "-c", 'command -v bash >/dev/null && exec bash -c "$1"; exec /bin/sh -c "$1"', "hook")


def host_environment(environ: Mapping[str, str], workspace: Path) -> dict[str, str]:
    """Return what a program on this machine gets of lmtui's environment: nothing that could hold a key."""
    kept = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    # the shell says in English what it does not find, whatever the language: see `hooks_answer`
    return {**kept, "LANGUAGE": "en", "TERM": "dumb", "CLAUDE_PROJECT_DIR": str(workspace), "LMTUI_WORKSPACE": str(workspace)}


async def run_on_host(
    program: str | tuple[str, ...], told: bytes, workspace: Path, environment: Mapping[str, str], limit_s: float
) -> HookResult:
    """Run a hook of the user's on this machine: a text for the shell, or the words of a program.

    Cancelled, it has ended it before it returns.
    """
    began = time.monotonic()
    running = _HookProgram()
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: running, *_words(program), cwd=workspace, env=dict(environment), start_new_session=True
        )
    except OSError as error:
        return HookResult(-1, problem=f"could not be started: {error.strerror}")
    problem = ""
    try:
        running.feed(transport, told)
        async with asyncio.timeout(limit_s):
            await running.ended(_AFTERWARDS_S)
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
    finally:
        await running.end(transport)
    code = transport.get_returncode()
    if running.is_flooding:
        problem = "wrote more than anybody reads"
    elif not problem and (code is None or code < 0):
        problem = f"was killed by signal {-(code or 0)}"
    exit_code = -1 if problem or code is None else code
    return HookResult(exit_code, running.out.data, running.err.data, problem, _since(began), is_cut=running.out.is_cut)


async def run_in_lane(
    program: str | tuple[str, ...], told: bytes, launcher: Launcher, *, can_write: bool, limit_s: float
) -> HookResult:
    """Run a hook of a folder's in the sandbox: a text for the shell, or the words of a program.

    Cancelled, it has ended it before it returns.
    """
    began = time.monotonic()
    mark = secrets.token_hex(12)
    arguments = ("/bin/sh", "-c", _IN_LANE, "hook", str(len(told)), mark, *_words(program))
    allowed = program_of(program if isinstance(program, str) else program[0])
    err = _KeptRun(MAX_ERROR_BYTES)
    served: Served | None = None
    problem, ran = "", HookResult(-1)
    try:
        async with asyncio.timeout(limit_s):
            served = await launcher.open(Launch(arguments, can_write=can_write, program=allowed), err.take_quietly)
            ran = await _in_lane(served, told, mark)
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
    except _TooMuchOutput:
        problem = "wrote more than anybody reads"
    except SandboxError as error:
        problem = f"could not be run: {error}"
    finally:
        if served is not None:
            await served.close()
    said = err.data.partition(_ENDED)[0]
    problem = problem or ("was killed" if ran.exit_code < 0 else "")
    return replace(ran, exit_code=-1 if problem else ran.exit_code, err=said, problem=problem, elapsed_ms=_since(began))


def program_of(command: str) -> str:
    """Return the program that a command begins with, as far as that is plain; empty for what only a shell knows."""
    word = next(iter(command.split()), "")
    return word if _PROGRAM.fullmatch(word) else ""


def _words(program: str | tuple[str, ...]) -> tuple[str, ...]:
    return (*_SHELL, program) if isinstance(program, str) else program


class _TooMuchOutput(Exception):
    """A program writes without end."""


class _KeptRun:
    """The beginning of what a program writes."""

    def __init__(self, max_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._read_bytes = 0

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    @property
    def is_cut(self) -> bool:
        return self._read_bytes > self._max_bytes

    def take(self, piece: bytes) -> None:
        """Keep what there is room for.

        Raises:
            _TooMuch: it is more than anybody reads.
        """
        self.take_quietly(piece)
        if self._read_bytes > _MOST_READ_BYTES:
            raise _TooMuchOutput

    def take_quietly(self, piece: bytes) -> None:
        self._read_bytes += len(piece)
        self._data += piece[: max(0, self._max_bytes - len(self._data))]


class _HookProgram(asyncio.SubprocessProtocol):
    """What a program on this machine writes, and when it ends."""

    def __init__(self) -> None:
        self.out, self.err = _KeptRun(), _KeptRun(MAX_ERROR_BYTES)
        self.is_flooding = False
        self._exited, self._silent, self._enough = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._open = {0, 1, 2}

    def feed(self, transport: asyncio.SubprocessTransport, told: bytes) -> None:
        """Give it its input, to the end; what it does not read is dropped."""
        pipe = transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport):
            pipe.write(told)
            pipe.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what there is room for."""
        try:
            (self.out if fd == 1 else self.err).take(data)
        except _TooMuchOutput:
            self.is_flooding = True
            self._enough.set()
            self._silent.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Take note that its input, or one of its outputs, is closed."""
        del exc
        self._open.discard(fd)
        if self._open <= {0}:
            self._silent.set()

    def process_exited(self) -> None:
        """Take note that it has ended."""
        self._exited.set()
        self._enough.set()

    async def ended(self, afterwards_s: float) -> None:
        """Wait until it has ended (or floods) and, for a moment, for what of its output is on the way, not for its children."""
        _ = await self._enough.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(afterwards_s):
                _ = await self._silent.wait()

    async def end(self, transport: asyncio.SubprocessTransport) -> None:
        """End it with its group, and where it still runs with what went into its own groups."""
        pid = transport.get_pid()
        if transport.get_returncode() is None:
            _kill_children(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        if transport.get_returncode() is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_KILLED_S):
                    _ = await self._exited.wait()
        pipe = transport.get_pipe_transport(0)
        if 0 in self._open and isinstance(pipe, asyncio.WriteTransport):  # a closed one cannot be closed again
            pipe.abort()
        transport.close()


def _kill_children(pid: int) -> None:
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


async def _in_lane(served: Served, told: bytes, mark: str) -> HookResult:
    """Give a program in an instance its input and read it to its end."""
    kept, tail = _KeptRun(), b""
    feeding = asyncio.ensure_future(_feed_lane(served, told))
    try:
        while piece := await served.read():
            kept.take(piece)
            tail = (tail + piece)[-200:]
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    _, found, code = tail.rpartition(mark.encode())
    if not found or not code.isdigit():
        return HookResult(-1, kept.data)
    out = kept.data.rpartition(b"\n" + mark.encode())[0] or (b"" if mark.encode() in kept.data else kept.data)
    return HookResult(int(code), out, is_cut=kept.is_cut)


async def _feed_lane(served: Served, told: bytes) -> None:
    with contextlib.suppress(SandboxError):
        for start in range(0, len(told), _PIECE_BYTES):
            await served.write(told[start : start + _PIECE_BYTES])


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


# Words of the shell itself.
_BUILT_IN = word_set(
    "! . : [ [[ alias bg break builtin case cd command continue declare dirs disown do echo else enable esac eval exec exit "
    "export false fg fi for function getopts hash if jobs kill let local mapfile popd printf pushd pwd read readarray readonly "
    "return select set shift shopt source test then time times trap true type typeset ulimit umask unalias unset until wait "
    "while { }"
)
_FUNCTION = re.compile(r"([\w-]+)\s*\(\)|\bfunction\s+([\w-]+)")
_UNSAFE = "{whose} hooks before tool calls cannot be read, so each call is asked about until {file} is fixed"
_UNTRUSTED = (
    "{count} of this folder ({files}) left out: nobody said yes to {it} as {it_is} now.  `/trust` or `lmtui config trust` asks."
)


@dataclass(frozen=True, slots=True)
class HookRunner:
    """Where a folder's hooks run: what starts them (None: nothing can), and the workspace's path there."""

    launcher: Launcher | None
    root: str


def hooks_trust(workspace: Path) -> FolderConsent:
    """Return what a folder's hooks wait for."""

    def brought() -> FolderContent:
        files = read_hooks(workspace)
        items = (TrustItem("hook", each.source, each.words + _missing(each)) for each in files.folders)
        return FolderContent(tuple(items), files.digest)

    def _missing(entry: HookEntry) -> str:
        missing = [name for name in _programs(entry) if find_program(name, workspace) is None]
        return f" ({', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on this machine)" if missing else ""

    return FolderConsent(workspace, "hooks", brought)


def _programs(entry: HookEntry) -> tuple[str, ...]:
    """Return the programs that a hook starts by their names, as far as that is plain."""
    if entry.arguments is not None:
        commands = [entry.command]
    else:
        commands = [unquoted(words[0]) for words in outline(entry.command).commands] or [*entry.command.split()[:1]]
    inner = {name for names in _FUNCTION.findall(entry.command) for name in names} | _BUILT_IN
    names = dict.fromkeys(map(program_of, commands))
    return tuple(name for name in names if name and "/" not in name and name not in inner)


class SessionHooks:
    """Implements `core.hooks.ConnectionHooks`; what the files say when it is made holds for the whole session.

    Args:
        workspace: the folder.
        around: the session and its log.
        instance: returns where a folder's hooks run.
        environ: lmtui's own environment; little of it reaches a hook.
        tools: our names of all tools, for what is said of matchers.
    """

    def __init__(
        self,
        workspace: Path,
        around: HookEnvironment,
        kind: Callable[[], Awaitable[HookRunner]],
        environ: Mapping[str, str],
        *,
        tools: Sequence[str] = (),
    ) -> None:
        self._workspace = workspace
        self._around = around
        self._instance_kind = kind
        self._environment = host_environment(environ, workspace)
        files = read_hooks(workspace)
        is_trusted = hooks_trust(workspace).holds(files.digest)
        self._entries = tuple(entry for entry in files.entries if entry.is_own or is_trusted)
        unread = next((entry for entry in files.unread if entry.is_own or is_trusted), None)
        self._is_unsafe = unread is not None
        self._unsafe = (
            _UNSAFE.format(whose="your own" if unread.is_own else "this folder's", file=unread.source) if unread else ""
        )
        odd = odd_matchers(self._entries, tools) if tools else ()
        self._problems = (*files.problems, *odd, *(() if is_trusted else _left_out(files)))
        self._wanted = frozenset(entry.event for entry in self._entries)

    @property
    def has_any(self) -> bool:
        return bool(self._entries)

    def wants(self, event: HookEvent) -> bool:
        return event in self._wanted or (self._is_unsafe and event is HookEvent.PRE_TOOL_USE)

    def problems(self) -> Sequence[str]:
        return (*self._problems, *([f"{self._unsafe}."] if self._is_unsafe else []))

    async def run(self, call: HookCall) -> HookVerdict:
        names = matched_names(call)
        meant = [entry for entry in self._entries if entry.event is call.event and entry.is_about(names)]
        about = [entry for entry in meant if meets(entry.condition, call)]
        entries = list({(entry.command, entry.arguments, entry.is_own): entry for entry in about}.values())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(entry, call)) for entry in entries]
        verdict = together(call.event, entries, [task.result() for task in tasks])
        if verdict.changed is not None:
            verdict = replace(verdict, changed=our_input(call, verdict.changed))
        if self._is_unsafe and call.event is HookEvent.PRE_TOOL_USE and verdict.permission is not Verdict.DENY:
            verdict = replace(verdict, permission=Verdict.ASK, reason=verdict.reason or self._unsafe)
        return verdict

    async def _run(self, entry: HookEntry, call: HookCall) -> HookResult:
        limit_s = min(entry.limit_s, call.limit_s or entry.limit_s)
        if entry.is_own:
            told = payload(call, self._around)
            program = entry.program(self._around.root)
            return await run_on_host(program, told, self._workspace, self._environment, limit_s)
        kind = await self._instance_kind()
        if kind.launcher is None:
            return HookResult(-1, problem="could not be run: no sandbox works here")
        told = payload(call, replace(self._around, root=kind.root))
        can_write = call.mode not in (Mode.PLAN, Mode.TRY)  # they see the workspace, not the overlay
        return await run_in_lane(entry.program(kind.root), told, kind.launcher, can_write=can_write, limit_s=limit_s)


def _left_out(files: HookFiles) -> tuple[str, ...]:
    """Return in words which hooks of the folder do not run."""
    if not files.folders:
        return ()
    count, names = len(files.folders), ", ".join(dict.fromkeys(entry.source for entry in files.folders))
    words = ("1 hook", "it", "it is") if count == 1 else (f"{count} hooks", "them", "they are")
    return (_UNTRUSTED.format(count=words[0], files=names, it=words[1], it_is=words[2]),)


class HooksService(WorkspaceFeature):
    """Gives each session the hooks that the files name when it is opened."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self.trust = (hooks_trust(host.workspace),)

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Read the files.  Blocks (three small files)."""
        if self.host.config.hooks != "on":
            return
        workspace = self.host.workspace

        async def instance() -> HookRunner:
            status = await sandbox.status()
            return HookRunner(sandbox.launcher, status.folder or str(workspace))

        log = sessions_dir(workspace) / f"{session.session_id}.jsonl"
        around = HookEnvironment(session.session_id, str(log), str(workspace))
        found = SessionHooks(workspace, around, instance, os.environ, tools=ToolRegistry().names())
        if found.problems() or found.has_any:
            session.features.add(Hooks, found)

    def problems(self) -> Sequence[str]:
        """Return what of the files cannot be read."""
        return read_hooks(self.host.workspace).problems

    def trusted_folders(self) -> Mapping[str, Sequence[str]]:
        """Return the folders whose hooks run."""
        return {"hooks": folders_with_yes("hooks")}

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Name each hook, and what is broken of them."""
        del is_offline
        files = await asyncio.to_thread(read_hooks, self.host.workspace)
        is_trusted = hooks_trust(self.host.workspace).holds(files.digest)
        problems = (*files.problems, *odd_matchers(files.entries, ToolRegistry().names()))
        rows = [
            CheckRow("hooks", OK, f"{each.words}, from {each.source}")
            if each.is_own or is_trusted
            else CheckRow("hooks", WARNING, f"waits for your yes: {each.words}, from {each.source}", TRUST_HINT)
            for each in files.entries
        ]
        return rows + [CheckRow("hooks", FAILURE if files.is_unsafe else WARNING, sanitize_line(each)) for each in problems]
