"""The one program that an instance may serve: its input, output and errors travel in frames, and none is lost.

Runs in the supervisor's one loop and never waits: where the other end does not take what it says, it is not read either.
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module

from . import execute, protocol
from .beneath import Refused
from .jobs import Job, OutputPipe, RunningJobs
from .protocol import Message
from .settings import Settings

_CHUNK_BYTES = 65_536
_MOST_WAITING_BYTES = 33_554_432
_FOREVER_S = 10.0 * 365 * 86_400


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
        self._outputs: list[OutputPipe] = []

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
        command = execute.Command(arguments, environment, _FOREVER_S, folder, program, streams=(input_r, err_w))
        run = partial(execute.run, command, out_w, self._options)
        job = self._jobs.start(identity, run, _FOREVER_S, (input_w, out_r, err_r), (input_r, out_w, err_w))
        job.memory_bytes = int(message["memory_mb"]) << 20
        self._id, self._input = identity, input_w
        os.set_blocking(input_w, False)
        self._outputs = [OutputPipe(self._selector, fd, self._sending(name)) for name, fd in (("out", out_r), ("err", err_r))]
        job.outputs += self._outputs

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
        for output in self._outputs:
            output.watch()

    def pause(self) -> None:
        """Leave its outputs where they are: the other end has enough for now."""
        for output in self._outputs:
            output.leave()

    def owns(self, job: Job) -> bool:
        """Tell whether a job is the program."""
        return job.id == self._id

    def finish(self, result: Message) -> Message:
        """Return the facts of how it ended."""
        self._close_input()
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

    def _sending(self, name: str) -> Callable[[bytes], None]:
        """Return what sends on the pieces of one of its outputs."""
        return lambda piece: self._send({"id": self._id, name: protocol.pack(piece)})


def _found(arguments: list[str], environment: dict[str, str], folder: str) -> tuple[str, ...]:
    """Return the arguments with the program's whole path."""
    name = arguments[0]
    path = _joined(folder, name) if "/" in name else import_module("shutil").which(name, path=environment.get("PATH", ""))
    if path is None or not os.access(path, os.X_OK):
        raise Refused(f"the program {name} is not there")
    return (path, *arguments[1:])


def _joined(folder: str, name: str) -> str:
    return name if name.startswith("/") else f"{folder}/{name}"
