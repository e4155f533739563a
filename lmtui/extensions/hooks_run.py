"""Runs the program of a hook: the user's own on this machine, a folder's in a lane of the sandbox.

Whatever a program does, this returns within its limit and has read at most so much of it.  In a lane nothing of it is left.
On this machine its group is ended with it, and where it had to be ended all that it started; what one that ended by itself
had put into a session of its own (`setsid`, a daemon) stays: nothing ties it to the program any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from lmtui.core.errors import SandboxError
from lmtui.core.serving import Launch, Launcher, Served
from lmtui.extensions.hooks_answer import Ran

MAX_OUTPUT_BYTES, MAX_ERROR_BYTES = 1_048_576, 65_536
_MOST_READ_BYTES = 16_777_216
_PIECE_BYTES = 65_536
_AFTERWARDS_S, _KILLED_S = 0.5, 5.0
_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "COLORTERM", "VIRTUAL_ENV",
})  # fmt: skip
_PROGRAM = re.compile(r"/?[\w.+/-]+")
_ENDED = b"lmtui: it ended"  # what a lane says behind the program's own words
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
) -> Ran:
    """Run a hook of the user's on this machine: a text for the shell, or the words of a program.

    Cancelled, it has ended it before it returns.
    """
    began = time.monotonic()
    running = _Program()
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: running, *_words(program), cwd=workspace, env=dict(environment), start_new_session=True
        )
    except OSError as error:
        return Ran(-1, problem=f"could not be started: {error.strerror}")
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
    return Ran(exit_code, running.out.data, running.err.data, problem, _since(began), is_cut=running.out.is_cut)


async def run_in_lane(
    program: str | tuple[str, ...], told: bytes, launcher: Launcher, *, can_write: bool, limit_s: float
) -> Ran:
    """Run a hook of a folder's in the sandbox: a text for the shell, or the words of a program.

    Cancelled, it has ended it before it returns.
    """
    began = time.monotonic()
    mark = secrets.token_hex(12)
    arguments = ("/bin/sh", "-c", _IN_LANE, "hook", str(len(told)), mark, *_words(program))
    allowed = program_of(program if isinstance(program, str) else program[0])
    err = _Kept(MAX_ERROR_BYTES)
    served: Served | None = None
    problem, ran = "", Ran(-1)
    try:
        async with asyncio.timeout(limit_s):
            served = await launcher.open(Launch(arguments, can_write=can_write, program=allowed), err.take_quietly)
            ran = await _in_lane(served, told, mark)
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
    except _TooMuch:
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


class _TooMuch(Exception):
    """A program writes without end."""


class _Kept:
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
            raise _TooMuch

    def take_quietly(self, piece: bytes) -> None:
        self._read_bytes += len(piece)
        self._data += piece[: max(0, self._max_bytes - len(self._data))]


class _Program(asyncio.SubprocessProtocol):
    """What a program on this machine writes, and when it ends."""

    def __init__(self) -> None:
        self.out, self.err = _Kept(), _Kept(MAX_ERROR_BYTES)
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
        except _TooMuch:
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
        """End it with its group, and where it still runs with what went into groups of its own."""
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


async def _in_lane(served: Served, told: bytes, mark: str) -> Ran:
    """Give a program in a lane its input and read it to its end."""
    kept, tail = _Kept(), b""
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
        return Ran(-1, kept.data)
    out = kept.data.rpartition(b"\n" + mark.encode())[0] or _without(kept.data, mark)
    return Ran(int(code), out, is_cut=kept.is_cut)


async def _feed_lane(served: Served, told: bytes) -> None:
    with contextlib.suppress(SandboxError):
        for start in range(0, len(told), _PIECE_BYTES):
            await served.write(told[start : start + _PIECE_BYTES])


def _without(data: bytes, mark: str) -> bytes:
    return b"" if mark.encode() in data else data


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
