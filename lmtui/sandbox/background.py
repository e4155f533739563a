"""Commands that stay: they run where other commands run, are read, fed and stopped later, and end with the session."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lmtui.core.errors import SandboxError
from lmtui.core.ports import OutputSink
from lmtui.core.sanitize import last_states, sanitize
from lmtui.core.workspace import BackgroundCommand, CommandLimits
from lmtui.sandbox import replies
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.supervisor_client import Client
from lmtui.sandbox.workspace_guard import GuardMoment

_MAX_HELD = 512
# A control sequence that may go on in the next piece, or a carriage return that may be half a line end.
_UNFINISHED = re.compile(
    r"(?:\x1b(?:[ -/]*|\[[0-?]*[ -/]*)|\x9b[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?|\r)\Z"
)


class LiveOutput:
    """Turns pieces of bytes into clean text; characters and control sequences may be split between pieces."""

    def __init__(self, sink: OutputSink, clean: Callable[[str], str] = sanitize) -> None:
        self._sink, self._clean = sink, clean
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def __call__(self, data: bytes, skipped_bytes: int) -> None:
        """Take up a piece, before which some bytes may have been left out."""
        if skipped_bytes:
            self.finish()
            self._sink(f"\n… {skipped_bytes:,} bytes not shown …\n")
        text = self._held + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _MAX_HELD))
        cut = unfinished.start() if unfinished else len(text)
        self._held = text[cut:]
        self._emit(text[:cut])

    def finish(self) -> None:
        """Let out what was held back."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        self._decoder.reset()
        self._emit(text)

    def _emit(self, text: str) -> None:
        if shown := self._clean(text):
            self._sink(shown)


def whole_output(data: bytes, head_bytes: int, total_bytes: int, saved_path: str) -> str:
    """Return a command's output as the model reads it: all of it, or head and tail with what is missing said between."""
    left_out = total_bytes - len(data)
    if left_out <= 0:
        return sanitize(last_states(data.decode("utf-8", "replace")))
    head, tail = (sanitize(last_states(part.decode("utf-8", "replace"))) for part in (data[:head_bytes], data[head_bytes:]))
    more = f"; the first of it is in {sanitize(saved_path)}" if saved_path else ""
    return f"{head}\n… {left_out:,} bytes left out{more} …\n{tail}"


_FOREVER_S = 10.0 * 365 * 86_400
_MOST_RUNNING = 16
_MOST_UNREAD_CHARS = 65_536
_INPUT_S = 5.0
_FULL = f"{_MOST_RUNNING} background commands run already"


@dataclass(slots=True, eq=False)
class _Entry:
    """One command: `unread` is what it said since it was last read, `dropped_chars` what was too much to keep."""

    id: str
    command: str
    began_s: float
    ended_s: float = 0.0
    exit_code: int | None = None
    why: str = ""
    unread: str = ""
    dropped_chars: int = 0
    client: Client | None = None
    number: int = 0
    moment: GuardMoment | None = None
    notes: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

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

    Args:
        instances: the supervisors of the workspace.
        limits: the memory that each may use.
        why_not: why none can be started, empty where they can.
    """

    def __init__(self, pool: SandboxPool, limits: CommandLimits, *, why_not: str = "") -> None:
        self._pool = pool
        self._why_not = why_not
        self._limits = limits
        self._entries: dict[str, _Entry] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._untold: list[str] = []
        self._on_change: Callable[[], None] = lambda: None

    def watch(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def commands(self) -> Sequence[BackgroundCommand]:
        return [entry.shown() for entry in self._entries.values()]

    async def start(self, command: str) -> BackgroundCommand:
        if self._why_not:
            raise SandboxError(self._why_not)
        if sum(entry.exit_code is None for entry in self._entries.values()) >= _MOST_RUNNING:
            raise SandboxError(_FULL, "Stop one.")
        entry = _Entry(f"b{len(self._entries) + 1}", command, time.monotonic())
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._keep(entry, started))
        try:
            await asyncio.shield(started)
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            raise
        self._entries[entry.id], self._tasks[entry.id] = entry, task
        self._on_change()
        return entry.shown()

    async def read(self, identity: str, wait_s: float = 0.0) -> tuple[str, BackgroundCommand]:
        """Return what a command said since the last time; with `wait_s`, wait so long for something or for its end.

        Raises:
            SandboxError: no such command.
        """
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
        """Send a command input.

        Raises:
            SandboxError: it has ended, or does not read what it was sent before.
        """
        entry = self._entry(identity)
        if entry.exit_code is not None or entry.client is None:
            raise SandboxError(f"{identity} has ended (exit code {entry.exit_code})")
        data = text.encode("utf-8", "surrogatepass")
        facts, _ = await entry.client.call("input", {"target": entry.number}, data, limit_s=_INPUT_S)
        taken = replies.parse(facts, replies.FedReply).taken
        if taken < len(data):
            raise SandboxError(f"{identity} took {taken:,} of {len(data):,} bytes: it does not read its input")

    async def stop(self, identity: str) -> BackgroundCommand:
        """Stop a command and all that it started; one that has ended is left as it is.

        Raises:
            SandboxError: no such command.
        """
        entry = self._entry(identity)
        if entry.exit_code is None and entry.client is not None:
            entry.why = "stopped"
            await entry.client.stop(entry.number)
            await entry.ended.wait()
        return entry.shown()

    def take_endings(self) -> Sequence[BackgroundCommand]:
        """Return once those that ended by themselves and were not read since."""
        ended, self._untold = self._untold, []
        return [self._entries[identity].shown() for identity in ended]

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _keep(self, entry: _Entry, started: asyncio.Future[None]) -> None:
        live = LiveOutput(entry.take, str)
        fields = {"command": entry.command, "timeout_s": _FOREVER_S, "memory_mb": self._limits.memory_mb, "takes_input": True}
        try:
            async with self._pool.staying_client() as client:
                entry.client = client
                await self._begin(entry)
                entry.number, answer = client.begin("run", fields, on_live=live)
                started.set_result(None)
                try:
                    reply = replies.parse(await answer, replies.RunReply)
                    entry.exit_code, entry.why = reply.exit, entry.why or ("" if reply.reason == "exit" else reply.reason)
                except asyncio.CancelledError:
                    await client.stop(entry.number)
                    raise
                finally:
                    await self._look(entry)
        except SandboxError as error:
            if not started.done():
                started.set_exception(error)
                return
            entry.why = str(error)
        finally:
            live.finish()
            entry.exit_code, entry.ended_s = 137 if entry.exit_code is None else entry.exit_code, time.monotonic()
            entry.news.set()
            entry.ended.set()
            if entry.why != "stopped":
                self._untold.append(entry.id)
            self._on_change()

    async def _begin(self, entry: _Entry) -> None:
        """Remember what is there, so that what the command leaves for programs outside is recognised."""
        if entry.client is not None and (await self._pool.started()).backend.is_isolated:
            entry.moment = await self._pool.workspace_guard.begin()

    async def _look(self, entry: _Entry) -> None:
        """Set aside what the command left for programs outside since the last look."""
        if entry.moment is None:
            return
        moment, entry.moment = entry.moment, None
        try:
            entry.notes += (await self._pool.workspace_guard.end(moment)).notes
            if not entry.ended.is_set() and entry.exit_code is None:
                await self._begin(entry)
        except SandboxError as error:
            entry.notes.append(f"[{error.full_text()}]")

    def _entry(self, identity: str) -> _Entry:
        entry = self._entries.get(identity.strip())
        if entry is None:
            known = ", ".join(self._entries) or "there is none; those of an earlier run of lmtui ended with it"
            raise SandboxError(f"no background command {identity[:40]!r}: {known}")
        return entry
