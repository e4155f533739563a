"""A program of the user's that runs on this machine: given its input, read to its end, and ended with what it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

MAX_OUTPUT_BYTES, MAX_ERROR_BYTES = 1_048_576, 65_536
_MOST_READ_BYTES = 16_777_216
FLOODS = "wrote too much output"
_AFTERWARDS_S, _KILLED_S = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """How a program ended: `exit_code` -1 where it did not end by itself or was not started, with `problem` in words.

    `is_cut`: it wrote more than `out` holds.
    """

    exit_code: int
    out: bytes = b""
    err: bytes = b""
    problem: str = ""
    elapsed_ms: int = 0
    is_cut: bool = False


@dataclass(slots=True)
class KeptOutput:
    """The first `max_bytes` of what a program writes; one that writes far more `is_flooding`, and nobody reads on."""

    max_bytes: int = MAX_OUTPUT_BYTES
    data: bytearray = field(default_factory=bytearray)
    read_bytes: int = 0

    @property
    def is_cut(self) -> bool:
        return self.read_bytes > self.max_bytes

    @property
    def is_flooding(self) -> bool:
        return self.read_bytes > _MOST_READ_BYTES

    def take(self, piece: bytes) -> None:
        """Keep what there is room for."""
        self.read_bytes += len(piece)
        self.data += piece[: max(0, self.max_bytes - len(self.data))]


async def run_on_host(
    words: Sequence[str], told: bytes, folder: Path, environment: Mapping[str, str], limit_s: float
) -> ProgramRun:
    """Run a program and keep the beginning of its output; cancelled, it has ended it before it returns."""
    began = time.monotonic()
    running = _HostProgram()
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: running, *words, cwd=folder, env=dict(environment), start_new_session=True
        )
    except OSError as error:
        return ProgramRun(-1, problem=f"could not be started: {error.strerror}")
    problem = ""
    try:
        async with asyncio.timeout(limit_s):
            await running.ended(transport, told)
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
    finally:
        await running.end(transport)
    code = transport.get_returncode()
    if running.out.is_flooding or running.err.is_flooding:
        problem = FLOODS
    elif not problem and (code is None or code < 0):
        problem = f"was killed by signal {-(code or 0)}"
    exit_code = -1 if problem or code is None else code
    out, err = bytes(running.out.data), bytes(running.err.data)
    return ProgramRun(exit_code, out, err, problem, since(began), is_cut=running.out.is_cut)


class _HostProgram(asyncio.SubprocessProtocol):
    """What a program on this machine writes, and when it ends."""

    def __init__(self) -> None:
        self.out, self.err = KeptOutput(), KeptOutput(MAX_ERROR_BYTES)
        self._exited, self._silent, self._enough = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._open = {0, 1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.out if fd == 1 else self.err
        kept.take(data)
        if kept.is_flooding:
            self._enough.set()
            self._silent.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        del exc
        self._open.discard(fd)
        if self._open <= {0}:
            self._silent.set()

    def process_exited(self) -> None:
        self._exited.set()
        self._enough.set()

    async def ended(self, transport: asyncio.SubprocessTransport, told: bytes) -> None:
        """Give it its input (what it does not read is dropped), and wait until it has ended or floods.

        What of its output is on the way then is waited for, for a moment; its children are not.
        """
        if isinstance(pipe := transport.get_pipe_transport(0), asyncio.WriteTransport):
            pipe.write(told)
            pipe.write_eof()
        _ = await self._enough.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AFTERWARDS_S):
                _ = await self._silent.wait()

    async def end(self, transport: asyncio.SubprocessTransport) -> None:
        """End it with its group, and where it still runs with what went into its own groups."""
        pid = transport.get_pid()
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(pid).children(recursive=True) if transport.get_returncode() is None else ():
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_S):
                _ = await self._exited.wait()
        pipe = transport.get_pipe_transport(0)
        if 0 in self._open and isinstance(pipe, asyncio.WriteTransport):  # a closed one cannot be closed again
            pipe.abort()
        transport.close()


def since(began: float) -> int:
    """Return the milliseconds since a moment of the monotonic clock."""
    return round((time.monotonic() - began) * 1000)
