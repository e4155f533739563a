"""The two ends of bytes between lmtui and a supervisor, and starting one as a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from lmtui.core.sanitize import sanitize_line

_BUFFER_BYTES = 2_097_152
_DIAGNOSIS_BYTES = 4096
_CLOSING_S = 2.0


class InstanceKind(StrEnum):
    """What an instance of the sandbox is for.

    `MAIN` runs commands and serves file tools.  `READ` runs commands to which the workspace is read-only, without network and
    with an empty `/tmp` for each.  `GIT` is for git with `.git` writable, `CHECKPOINT` for the store of checkpoints.  `VIEW`
    shows the user the whole workspace and runs nothing but git that reads.  `GUARD` looks after the workspace and runs no
    program.  `SERVER` is for one long-running program, `READING_SERVER` for one with a read-only workspace.
    """

    MAIN = "main"
    READ = "read"
    GIT = "git"
    CHECKPOINT = "checkpoint"
    VIEW = "view"
    GUARD = "guard"
    SERVER = "server"
    READING_SERVER = "reading server"

    @property
    def is_read_only(self) -> bool:
        """Tell whether nothing in the workspace can be changed."""
        return self in (InstanceKind.READ, InstanceKind.VIEW, InstanceKind.READING_SERVER)

    @property
    def serves(self) -> bool:
        """Tell whether it is for one program that stays."""
        return self in (InstanceKind.SERVER, InstanceKind.READING_SERVER)

    @property
    def has_shell(self) -> bool:
        """Tell whether it runs commands."""
        return self in (InstanceKind.MAIN, InstanceKind.READ)

    @property
    def runs_programs(self) -> bool:
        """Tell whether what it runs may change the workspace and reach the network."""
        return self is InstanceKind.MAIN or self.serves

    @property
    def is_masked(self) -> bool:
        """Tell whether denied and secret files are masked in it: wherever a model's command or a foreign program runs."""
        return self.has_shell or self.serves


class Link(Protocol):
    """A running supervisor's input and output."""

    @property
    def reader(self) -> asyncio.StreamReader:
        """Return where its frames come from."""

    def write(self, data: bytes) -> None:
        """Send bytes; those that it does not take yet are kept."""

    async def drain(self) -> None:
        """Wait until it took most of what was sent."""

    def diagnosis(self) -> str:
        """Return the last of what it said next to the frames, on one line."""

    async def close(self) -> None:
        """End it with everything in it; idempotent."""


class ProcessLink:
    """A supervisor that is a child process of lmtui (or the child of one, as with bubblewrap)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._input = process.stdin
        self._tail = bytearray()
        self._errors = asyncio.create_task(self._collect(process.stderr))
        self.reader = process.stdout

    def write(self, data: bytes) -> None:
        """Send bytes; those that it does not take yet are kept."""
        self._input.write(data)

    async def drain(self) -> None:
        """Wait until it took most of what was sent."""
        await self._input.drain()

    def diagnosis(self) -> str:
        """Return the last of what it said next to the frames, on one line."""
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return sanitize_line(lines[-1]) if lines else ""

    async def close(self) -> None:
        """Close its input, which ends it; kill it where that takes too long."""
        self._input.close()
        try:
            async with asyncio.timeout(_CLOSING_S):
                await self._process.wait()
        except TimeoutError:
            await self._kill()
        except asyncio.CancelledError:  # the event loop ends: nothing waits for it later
            await self._kill()
            raise
        finally:
            self._errors.cancel()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await self._input.wait_closed()

    async def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def _collect(self, errors: asyncio.StreamReader) -> None:
        while piece := await errors.read(_DIAGNOSIS_BYTES):
            self._tail += piece
            del self._tail[:-_DIAGNOSIS_BYTES]


async def spawn(arguments: Sequence[str], environment: Mapping[str, str]) -> ProcessLink:
    """Start a program whose input and output are a supervisor's.

    Raises:
        OSError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environment),
        start_new_session=True,  # a Ctrl-C in the terminal is lmtui's to handle
        cwd=os.sep,
        limit=_BUFFER_BYTES,
    )
    return ProcessLink(process)
