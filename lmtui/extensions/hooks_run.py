"""Runs the program of a hook: the user's own on this machine, a folder's in a lane of the sandbox.

Whatever a program does, this returns within its limit, has read at most so much of it, and nothing of the program is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
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

MAX_OUTPUT_BYTES = 65_536
_MOST_READ_BYTES = 16_777_216
_PIECE_BYTES = 65_536
_AFTERWARDS_S = 0.5
_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "COLORTERM", "VIRTUAL_ENV",
})  # fmt: skip
# `head` ends at the last byte of the input, so that the hook meets its end; the last line says how the hook ended
_IN_LANE = 'head -c "$2" | CLAUDE_PROJECT_DIR="$PWD" /bin/sh -c "$1"; printf "\\n%s%d" "$3" "$?"'


def host_environment(environ: Mapping[str, str], workspace: Path) -> dict[str, str]:
    """Return what a program on this machine gets of lmtui's environment: nothing that could hold a key."""
    kept = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    return {**kept, "TERM": "dumb", "CLAUDE_PROJECT_DIR": str(workspace), "LMTUI_WORKSPACE": str(workspace)}


async def run_on_host(command: str, told: bytes, workspace: Path, environment: Mapping[str, str], limit_s: float) -> Ran:
    """Run a command of the user's on this machine; cancelled, it has ended it before it returns."""
    began = time.monotonic()
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command,
            cwd=workspace, env=dict(environment), start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        return Ran(-1, problem=f"could not be started: {error.strerror}")
    out, err = _Kept(), _Kept()
    problem = ""
    try:
        async with asyncio.timeout(limit_s):
            await _through(process, told, out, err)
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
    except _TooMuch:
        problem = "wrote more than anybody reads"
    finally:
        await _end(process)
    code = process.returncode if process.returncode is not None else -1
    if not problem and code < 0:
        problem = f"was killed by signal {-code}"
    return Ran(-1 if problem else code, out.data, err.data, problem, _since(began))


async def run_in_lane(command: str, told: bytes, launcher: Launcher, *, can_write: bool, limit_s: float) -> Ran:
    """Run a command of a folder's in the sandbox; cancelled, it has ended it before it returns."""
    began = time.monotonic()
    mark = secrets.token_hex(12)
    arguments = ("/bin/sh", "-c", _IN_LANE, "hook", command, str(len(told)), mark)
    err = _Kept()
    served: Served | None = None
    problem, ran = "", Ran(-1)
    try:
        async with asyncio.timeout(limit_s):
            served = await launcher.open(Launch(arguments, can_write=can_write), err.take_quietly)
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
    said = err.data.rpartition(b"lmtui: it ended")[0] or err.data if not problem else err.data
    problem = problem or ("was killed" if ran.exit_code < 0 else "")
    return replace(ran, exit_code=-1 if problem else ran.exit_code, err=said, problem=problem, elapsed_ms=_since(began))


class _TooMuch(Exception):
    """A program writes without end."""


class _Kept:
    """The beginning of what a program writes."""

    def __init__(self) -> None:
        self.data = b""
        self._read_bytes = 0

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
        self.data += piece[: max(0, MAX_OUTPUT_BYTES - len(self.data))]


async def _through(process: asyncio.subprocess.Process, told: bytes, out: _Kept, err: _Kept) -> None:
    """Give a program its input and read what it writes, until it has ended; what it leaves behind is not waited for."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    work = [
        asyncio.ensure_future(each)
        for each in (_feed(process.stdin, told), _drain(process.stdout, out), _drain(process.stderr, err))
    ]
    ended = asyncio.ensure_future(process.wait())
    try:
        reading = {*work[1:], ended}
        while not ended.done():
            done, reading = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                _ = each.result()
        if reading:
            done, _ = await asyncio.wait(reading, timeout=_AFTERWARDS_S)
            for each in done:
                _ = each.result()
    finally:
        for each in (*work, ended):
            each.cancel()
        await asyncio.gather(*work, ended, return_exceptions=True)


async def _feed(stream: asyncio.StreamWriter, told: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it may end, or close its input, without reading it
        stream.write(told)
        await stream.drain()
    with contextlib.suppress(ConnectionError):
        stream.close()
        await stream.wait_closed()


async def _drain(stream: asyncio.StreamReader, kept: _Kept) -> None:
    while piece := await stream.read(_PIECE_BYTES):
        kept.take(piece)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program with its group, and where it still runs with what went into groups of its own."""
    is_running = process.returncode is None
    if is_running:
        _kill_children(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if is_running:
        _ = await asyncio.shield(process.wait())


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
    return Ran(int(code), kept.data.rpartition(b"\n" + mark.encode())[0] or _without(kept.data, mark))


async def _feed_lane(served: Served, told: bytes) -> None:
    with contextlib.suppress(SandboxError):
        for start in range(0, len(told), _PIECE_BYTES):
            await served.write(told[start : start + _PIECE_BYTES])


def _without(data: bytes, mark: str) -> bytes:
    return b"" if mark.encode() in data else data


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
