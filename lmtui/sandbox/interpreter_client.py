"""One Python interpreter per session, in a instance of the own sandbox; it is begun at its first use and keeps its names."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from importlib import resources

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.messages import MAX_IMAGE_BYTES, MAX_IMAGES, Image, sniff
from lmtui.core.programs import CodeResult, GuardedLauncher, Launch, Served
from lmtui.core.sanitize import sanitize
from lmtui.sandbox.supervisor_client import to_the_end

_STOP_S = 3.0
_MAX_FRAME_BYTES = 8_388_608
_MAX_HELD_CHARS = 400_000
_HEAD_BYTES = 4
_FRAMES_AT_ONCE = 100


class _Broken(Exception):
    """The interpreter has ended, or says what no frame can be."""


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
        return f"{self.head}\n[… {left_out:,} characters left out …]\n{self.tail}" if left_out else self.head + self.tail


class LaneInterpreter:
    """Implements `core.interpreter.Interpreter`.

    Args:
        launcher: returns what starts programs in the sandbox, None where nothing can.
        hosts: patterns of hosts that the code may reach.
    """

    def __init__(self, launcher: Callable[[], Awaitable[GuardedLauncher | None]], hosts: tuple[str, ...] = ()) -> None:
        self._launcher = launcher
        self._hosts = hosts
        self._turn = asyncio.Lock()
        self._process: Served | None = None
        self._unread = bytearray()

    async def run(self, code: str, *, timeout_s: float, on_output: Callable[[str], None]) -> CodeResult:
        """Run code; see `core.interpreter.Interpreter.run`."""
        async with self._turn:
            async with (await self._found()).guarded() as left:
                ran = await self._run(code, timeout_s, on_output)
            return replace(ran, left=tuple(left))

    async def _run(self, code: str, timeout_s: float, on_output: Callable[[str], None]) -> CodeResult:
        is_fresh = self._process is None
        process = self._process or await self._begin()
        held = _Held()
        try:
            await process.write(_frame({"code": code}))
            async with asyncio.timeout(timeout_s):
                is_ok = await self._until_done(process, held, on_output)
            return self._ran(held, is_ok=is_ok, is_fresh=is_fresh)
        except TimeoutError:
            is_lost = not await self._stop(process, held, on_output)
            return self._ran(held, is_ok=False, is_fresh=is_fresh, is_lost=is_lost, is_timed_out=True)
        except (_Broken, SandboxError):
            await self._end()
            return self._ran(held, is_ok=False, is_fresh=is_fresh, is_lost=True)
        except asyncio.CancelledError:
            await to_the_end(self._stop(process, held, on_output))
            raise

    async def close(self) -> None:
        """End it; the next code gets a fresh one."""
        async with self._turn:
            await self._end()

    async def _found(self) -> GuardedLauncher:
        launcher = await self._launcher()
        if launcher is None:
            raise SandboxUnavailable("no sandbox works here, so there is no Python", "The user can look: lmtui doctor.")
        return launcher

    async def _begin(self) -> Served:
        source = resources.files("lmtui.sandbox.guest").joinpath("interpreter.py").read_text(encoding="utf-8")
        arguments = ("python3", "-I", "-u", "-X", "utf8", "-c", source)
        launch = Launch(arguments, {"MPLBACKEND": "Agg"}, hosts=self._hosts, shows_added=True)
        self._unread = bytearray()
        self._process = await (await self._found()).open(launch, lambda _: None)
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()

    async def _stop(self, process: Served, held: _Held, on_output: Callable[[str], None]) -> bool:
        """Stop what runs; False where it did not let itself be stopped, and is ended with all that it knew."""
        try:
            await process.write(_frame({"stop": True}))
            async with asyncio.timeout(_STOP_S):
                await self._until_done(process, held, on_output)
        except (TimeoutError, _Broken, SandboxError):
            await self._end()
            return False
        return True

    async def _until_done(self, process: Served, held: _Held, on_output: Callable[[str], None]) -> bool:
        frames = 0
        while True:
            frames += 1
            if frames % _FRAMES_AT_ONCE == 0:
                await asyncio.sleep(0)  # however many there are, the screen gets its turn
            frame = await self._next(process)
            if isinstance(frame.get("out"), str):
                text = sanitize(str(frame["out"]))
                held.take(text)
                on_output(text)
            elif "image" in frame and len(held.images) < MAX_IMAGES:
                held.images += _image(frame["image"], len(held.images) + 1)
            elif "done" in frame:
                return frame["done"] is True

    async def _next(self, process: Served) -> dict[str, object]:
        """Return the next frame; one that is waited for no longer stays unread as a whole.

        Raises:
            _Broken: there is none, or it is none.
        """
        await self._fill(process, _HEAD_BYTES)
        (size,) = struct.unpack_from(">I", self._unread)
        if size > _MAX_FRAME_BYTES:
            raise _Broken
        end = _HEAD_BYTES + size
        await self._fill(process, end)
        body = bytes(self._unread[_HEAD_BYTES:end])
        del self._unread[:end]
        try:
            frame = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _Broken from error
        return frame if isinstance(frame, dict) else {}

    async def _fill(self, process: Served, count: int) -> None:
        while len(self._unread) < count:
            piece = await process.read()
            if not piece:
                raise _Broken
            self._unread += piece

    def _ran(
        self, held: _Held, *, is_ok: bool, is_fresh: bool, is_lost: bool = False, is_timed_out: bool = False
    ) -> CodeResult:
        return CodeResult(held.text, is_ok, tuple(held.images), is_fresh, is_lost, is_timed_out, held.total)


def _frame(fields: dict[str, object]) -> bytes:
    data = json.dumps(fields).encode()
    return struct.pack(">I", len(data)) + data


def _image(told: object, number: int) -> list[Image]:
    with contextlib.suppress(binascii.Error, ValueError):
        data = base64.b64decode(str(told), validate=True)
        if sniff(data) == "image/png" and len(data) <= MAX_IMAGE_BYTES:
            return [Image(f"figure {number}", "image/png", data)]
    return []
