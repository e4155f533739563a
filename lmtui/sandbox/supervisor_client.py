"""The bytes between lmtui and one supervisor, and the conversation over them: many calls in flight, every frame checked.

A frame that does not belong ends the link: what sends one cannot be trusted with the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.sanitize import sanitize_line
from lmtui.sandbox import replies
from lmtui.sandbox.guest import protocol

_BUFFER_BYTES = 2_097_152
_DIAGNOSIS_BYTES = 4096
_CLOSING_S = 2.0


class InstanceKind(StrEnum):
    """What an instance of the sandbox is for.

    `MAIN` runs commands and serves file tools.  `READ` runs commands to which the workspace is read-only, without network and
    with an empty `/tmp` for each.  `GIT` is for git with `.git` writable, `REMOTE` for git that also reaches another
    repository, `CHECKPOINT` for the store of checkpoints.  `VIEW` shows the user the whole workspace and runs nothing but git
    that reads.  `GUARD` looks after the workspace and runs no program.  `SERVER` is for one long-running program,
    `READING_SERVER` for one with a read-only workspace.
    """

    MAIN = "main"
    READ = "read"
    GIT = "git"
    REMOTE = "git remote"
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
        """Tell whether it runs the workspace's programs, and these may change it."""
        return self is InstanceKind.MAIN or self.serves

    @property
    def has_network(self) -> bool:
        """Tell whether what it runs reaches the network, where there is one."""
        return self.runs_programs or self is InstanceKind.REMOTE

    @property
    def runs_git(self) -> bool:
        """Tell whether it is for git, with all files visible to it."""
        return self.writes_git or self is InstanceKind.VIEW

    @property
    def writes_git(self) -> bool:
        """Tell whether the git folder can be changed in it."""
        return self in (InstanceKind.GIT, InstanceKind.REMOTE)

    @property
    def is_masked(self) -> bool:
        """Tell whether denied and secret files are masked in it: wherever a model's command or a foreign program runs."""
        return self.has_shell or self.serves


class Link:
    """A running supervisor's input and output, and the end of what it said next to the frames.

    `network` returns what `SandboxLayout.network` calls its network, once it has started; empty if nobody can share it.
    """

    reader: asyncio.StreamReader

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._input = writer
        self._tail = bytearray()
        self.network: Callable[[], str] = str

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
        """End it with everything in it; idempotent."""
        raise NotImplementedError

    def _note(self, piece: bytes) -> None:
        self._tail += piece
        del self._tail[:-_DIAGNOSIS_BYTES]


class ProcessLink(Link):
    """A supervisor that is a child process of lmtui (or the child of one, as with bubblewrap)."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        super().__init__(process.stdin)
        self._process, self.pid = process, process.pid
        self._errors = asyncio.create_task(self._collect(process.stderr))
        self.reader = process.stdout

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
            self._note(piece)


async def spawn(arguments: Sequence[str], environment: Mapping[str, str], hint: str = "") -> ProcessLink:
    """Start a program whose input and output are a supervisor's; a cancel ends it once it runs.

    Killed earlier, a bubblewrap leaves a process that nothing ends and that keeps the pipes open.

    Raises:
        SandboxUnavailable: it cannot be started.
    """

    async def started() -> ProcessLink:
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

    try:
        return await undone_if_cancelled(started(), ProcessLink.close)
    except OSError as error:
        raise SandboxUnavailable(f"{arguments[0]} cannot be started: {error.strerror}", hint) from error


T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:  # Any: what a coroutine yields to its loop
    """Do the work and return what it returns; a cancel, or several, meanwhile is raised after it, never instead of it.

    The work has to have its own limit.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen; the cancel is what the caller asked for
        raise cancelled
    return task.result()


async def undone_if_cancelled(work: Coroutine[Any, Any, T], undo: Callable[[T], Awaitable[None]]) -> T:  # Any: see above
    """Do the work and return what it made; a cancel meanwhile is raised once it is done and undone again."""

    async def undone() -> None:
        with contextlib.suppress(SandboxError, OSError):
            await undo(await doing)

    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await to_the_end(undone())
        raise


_READ_BYTES = 262_144
_HELLO_S = 15.0
_MAX_REPLY_BYTES = 18_874_368
_STOPPING_S = 1.0

Output = Callable[[bytes, int], None]
Answer = tuple[dict[str, object], bytes]


@dataclass(slots=True)
class _Pending:
    """A call that waits for its answer."""

    answer: asyncio.Future[Answer]
    on_output: Output | None = None
    on_error: Callable[[bytes], None] | None = None
    data: bytearray = field(default_factory=bytearray)


class Client:
    """Calls to one supervisor."""

    def __init__(self, link: Link) -> None:
        self._link, self.network = link, link.network
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._broken = ""
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Tell whether calls can be made."""
        return not self._broken and self._reading is not None

    async def start(self) -> None:
        """Wait for the supervisor's greeting and begin to read.

        Raises:
            SandboxError: it does not start, or is not one that this client understands.
        """
        decoder = protocol.Decoder()
        messages: list[protocol.Message] = []
        try:
            async with asyncio.timeout(_HELLO_S):
                while not messages and (piece := await self._link.reader.read(_READ_BYTES)):
                    messages = decoder.feed(piece)
        except (TimeoutError, protocol.ProtocolError, OSError) as error:
            raise SandboxError(self._why("the sandbox does not start")) from error
        if not messages or messages[0].get("hello") != protocol.VERSION:
            raise SandboxError(self._why("the sandbox does not start"))
        self._reading = asyncio.create_task(self._read(decoder, messages[1:]))

    async def call(
        self, op: str, fields: Mapping[str, object], data: bytes = b"", *, limit_s: float, on_output: Output | None = None
    ) -> Answer:
        """Make a call and return the fields and the data of its answer.

        A call that is cancelled is stopped inside first; where that takes more than a second the whole instance is ended.

        Raises:
            SandboxError: no answer in time, or the supervisor is gone or talks nonsense; the instance is ended then.
        """
        identity, answer = self.begin(op, fields, data, on_output=on_output)
        try:
            if data:
                await self._link.drain()
            async with asyncio.timeout(limit_s):
                return await asyncio.shield(answer)
        except TimeoutError as error:
            await self._break(f"the sandbox gave no answer within {limit_s:.0f} s")
            raise SandboxError(self._broken) from error
        except asyncio.CancelledError:
            await self.stop(identity)
            raise

    async def ask(
        self, shape: type[replies.R], op: str, fields: Mapping[str, object], data: bytes = b"", *, limit_s: float
    ) -> tuple[replies.R, bytes]:
        """Make a call, and return the checked fields of its answer and the data.

        Raises:
            SandboxError: as `call` does; or the answer is an error, or does not have this shape.
        """
        facts, answer = await self.call(op, fields, data, limit_s=limit_s)
        return replies.parse(facts, shape), answer

    def begin(
        self,
        op: str,
        fields: Mapping[str, object],
        data: bytes = b"",
        *,
        on_output: Output | None = None,
        on_error: Callable[[bytes], None] | None = None,
    ) -> tuple[int, asyncio.Future[Answer]]:
        """Begin a call; return its number and what will be its answer: of a program, how it ended.

        `on_output` gets each piece of the program's output, with how many bytes before it were skipped, and `on_error` its
        errors where these are apart.  It ends with the instance at the latest.

        Raises:
            SandboxError: the instance is gone.
        """
        pending = _Pending(asyncio.get_running_loop().create_future(), on_output, on_error)
        identity = self._send(op, fields, data, pending)

        def forget(answer: asyncio.Future[Answer]) -> None:
            del self._pending[identity]
            _ = answer.cancelled() or answer.exception()  # seen, whether or not it was raised

        pending.answer.add_done_callback(forget)
        return identity, pending.answer

    async def stop(self, identity: int) -> None:
        """Stop what `begin` started and wait until nothing of it runs any more."""
        if (pending := self._pending.get(identity)) is not None:
            await to_the_end(self._stop(identity, pending.answer))

    def _send(self, op: str, fields: Mapping[str, object], data: bytes = b"", pending: _Pending | None = None) -> int:
        """Send a request, to which `pending` waits for the answer, and return its number."""
        if not self.is_alive:
            raise SandboxError(self._broken or "the sandbox is not running")
        identity = self._last_id + 1
        frames = [*protocol.data_frames(identity, data), protocol.encode({"id": identity, "op": op, **fields})]
        self._last_id = identity
        if pending is not None:
            self._pending[identity] = pending
        for frame in frames:
            self._link.write(frame)
        return identity

    async def close(self) -> None:
        """End the supervisor and everything below it, also where the caller is cancelled meanwhile."""
        await to_the_end(self._close())

    async def _close(self) -> None:
        await self._break("the sandbox was closed")
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _stop(self, identity: int, answer: asyncio.Future[Answer]) -> None:
        if self._broken or answer.done():
            return
        self._send("kill", {"target": identity})
        done, _ = await asyncio.wait({answer}, timeout=_STOPPING_S)
        if not done:
            await self._break("a command could not be stopped, so the sandbox was ended")

    async def _read(self, decoder: protocol.Decoder, messages: list[protocol.Message]) -> None:
        why = "the sandbox ended unexpectedly"
        try:
            for message in messages:
                self._take(message)
            while piece := await self._link.reader.read(_READ_BYTES):
                for message in decoder.feed(piece):
                    self._take(message)
        except protocol.ProtocolError as error:
            why = f"the sandbox sent something that is not an answer ({error})"
        except OSError as error:
            why = f"the connection to the sandbox broke ({error})"
        await self._break(self._why(why))

    def _take(self, message: protocol.Message) -> None:
        identity = message.get("id")
        if type(identity) is not int or not 0 < identity <= self._last_id:
            raise protocol.ProtocolError("an answer to nothing")
        pending = self._pending.get(identity)
        if pending is None:
            return  # the call was given up meanwhile
        if "out" in message:
            skipped, data = message.get("skipped"), protocol.unpack(message["out"])
            if type(skipped) is not int or skipped < 0:
                raise protocol.ProtocolError("a count that is none")
            if pending.on_output is not None:
                pending.on_output(data, skipped)
        elif "err" in message:
            data = protocol.unpack(message["err"])
            if pending.on_error is not None:
                pending.on_error(data)
        elif "data" in message:
            pending.data += protocol.unpack(message["data"])
            if len(pending.data) > _MAX_REPLY_BYTES:
                raise protocol.ProtocolError("an answer without end")
        elif message.pop("done", None) is True:
            del message["id"]
            if not pending.answer.done():
                pending.answer.set_result((message, bytes(pending.data)))
        else:
            raise protocol.ProtocolError("a frame of no known kind")

    async def _break(self, why: str) -> None:
        """Give up the link: end the supervisor, fail what waits."""
        if self._broken:
            return
        self._broken = why
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(SandboxError(why))
        await self._link.close()

    def _why(self, text: str) -> str:
        diagnosis = self._link.diagnosis()
        return f"{text}: {diagnosis}" if diagnosis else text
