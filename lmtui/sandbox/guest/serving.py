"""The one program that an instance may serve: its input, output and errors travel in frames, and none is lost.

Runs in the supervisor's one loop and never waits: where the other end does not take what it says, it is not read either.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from . import execute, protocol
from .beneath import Refused
from .jobs import Job, RunningJobs
from .protocol import Message
from .settings import Settings

_CHUNK_BYTES = 65_536
_MOST_WAITING_BYTES = 33_554_432
_FOREVER_S = 10.0 * 365 * 86_400


class _Pipe:
    """One of its outputs: the descriptor, and under which name it goes out."""

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.is_watched = False


class Service:
    """Starts the program, carries its bytes, and says how it ended."""

    def __init__(
        self, selector: selectors.BaseSelector, jobs: RunningJobs, options: Settings, send: Callable[[Message], None]
    ) -> None:
        self._selector = selector
        self._jobs = jobs
        self._options = options
        self._send = send
        self._id = 0
        self._input = -1
        self._waiting = bytearray()
        self._pipes: list[_Pipe] = []

    def start(self, identity: int, message: Message, program: bytes) -> None:
        """Start the program.

        Raises:
            Refused: this instance serves nothing, serves already, or has no such program.
            OSError: no process could be made.
        """
        if not self._options.serves or self._id:
            raise Refused(
                "this instance serves no program" if not self._options.serves else "this instance serves a program already"
            )
        environment = {
            **self._options.commands_environment,
            **{str(key): str(value) for key, value in message["variables"].items()},
        }
        folder = _joined(self._options.root, str(message["folder"]))
        arguments = _found([str(argument) for argument in message["arguments"]], environment, folder)
        (input_r, input_w), (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe(), os.pipe()
        ours, theirs = (input_w, out_r, err_r), (input_r, out_w, err_w)
        streams = (input_r, err_w)
        command = execute.Command(arguments, environment, _FOREVER_S, folder, program, streams=streams)
        try:
            job = self._jobs.start(identity, lambda: execute.run(command, out_w, self._options), _FOREVER_S, also_close=ours)
        except OSError:
            for fd in ours:
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        job.memory_bytes = int(message["memory_mb"]) << 20
        self._id, self._input = identity, input_w
        self._pipes = [_Pipe(out_r, "out"), _Pipe(err_r, "err")]
        for fd in ours:
            os.set_blocking(fd, False)
        self.resume()

    def feed(self, target: int, data: bytes) -> None:
        """Put more behind what waits to be its input; what it does not take in the end, ends it."""
        if target != self._id or self._input < 0:
            return
        if len(self._waiting) + len(data) > _MOST_WAITING_BYTES:
            self._jobs.stop(self._id)
            return
        if not self._waiting:
            self._selector.register(self._input, selectors.EVENT_WRITE, self._write)
        self._waiting += data

    def resume(self) -> None:
        """Read its outputs again."""
        for pipe in self._pipes:
            if not pipe.is_watched and pipe.fd >= 0:
                self._selector.register(pipe.fd, selectors.EVENT_READ, lambda pipe=pipe: self._read(pipe))
                pipe.is_watched = True

    def pause(self) -> None:
        """Leave its outputs where they are: the other end has enough for now."""
        for pipe in self._pipes:
            if pipe.is_watched:
                self._selector.unregister(pipe.fd)
                pipe.is_watched = False

    def owns(self, job: Job) -> bool:
        """Tell whether a job is the program."""
        return job.id == self._id

    def finish(self, result: Message) -> Message:
        """Send what is left of its outputs and return the facts of how it ended."""
        for pipe in self._pipes:
            while self._take(pipe):
                pass
        self.pause()
        self._close_input()
        for pipe in self._pipes:
            if pipe.fd >= 0:
                os.close(pipe.fd)
        self._pipes = []
        return {"exit": 137, "reason": "killed", **{key: result[key] for key in ("exit", "reason", "error") if key in result}}

    def _write(self) -> bool:
        try:
            with suppress(BlockingIOError):
                del self._waiting[: os.write(self._input, self._waiting[:_CHUNK_BYTES])]
        except OSError:  # it closed its input; what it says last is still read
            self._close_input()
            return True
        if not self._waiting:
            self._selector.unregister(self._input)
        return True

    def _close_input(self) -> None:
        if self._input >= 0:
            if self._waiting:
                self._selector.unregister(self._input)
                self._waiting.clear()
            os.close(self._input)
            self._input = -1

    def _read(self, pipe: _Pipe) -> bool:
        self._take(pipe)
        return True

    def _take(self, pipe: _Pipe) -> bool:
        """Send on what one of its outputs has; False where there is nothing more now."""
        if pipe.fd < 0:
            return False
        try:
            piece = os.read(pipe.fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if piece:
            self._send({"id": self._id, pipe.name: protocol.pack(piece)})
            return True
        if pipe.is_watched:
            self._selector.unregister(pipe.fd)
            pipe.is_watched = False
        os.close(pipe.fd)
        pipe.fd = -1
        return False


def _found(arguments: list[str], environment: dict[str, str], folder: str) -> tuple[str, ...]:
    """Return the arguments with the program's whole path."""
    name = arguments[0]
    path = _joined(folder, name) if "/" in name else import_module("shutil").which(name, path=environment.get("PATH", ""))
    if path is None or not os.access(path, os.X_OK):
        raise Refused(f"the program {name} is not there")
    return (path, *arguments[1:])


def _joined(folder: str, name: str) -> str:
    return name if name.startswith("/") else f"{folder}/{name}"
