"""The jobs under way: each has a keeper, a pipe for its result and, for a command, one for its output.

All of it runs in the supervisor's one thread and never waits.  Of the one program that an instance may serve, input, output and
errors travel in frames, and none is lost: where the other end does not take what it says, it is not read either.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module

from . import execute, process_tree, protocol
from .beneath import Refused
from .capture import Capture
from .protocol import Message
from .settings import Settings

_READ_BYTES = 262_144
_MOST_LEFT_BYTES = 2 << 20  # pipe(7): without rights a pipe holds a megabyte at most; pieces may be short
_MAX_RESULT_BYTES = 900_000
_TICK_S = 0.05
LIVE_EVERY_S = 0.03
_GRACE_S = 2.0
_CANCEL_GRACE_S = 0.7
_CHUNK_BYTES = 65_536
_MOST_WAITING_BYTES = 33_554_432
_FOREVER_S = 10.0 * 365 * 86_400


class OutputPipe:
    """One output of a program: what it says goes to `take`, in pieces.  `fd` is -1 once it has ended."""

    def __init__(self, selector: selectors.BaseSelector, fd: int, take: Callable[[bytes], None]) -> None:
        self.fd = fd
        self._selector = selector
        self._take = take
        self._is_watched = False
        os.set_blocking(fd, False)
        self.watch()

    def watch(self) -> None:
        """Read it whenever it says something."""
        if self.fd >= 0 and not self._is_watched:
            self._selector.register(self.fd, selectors.EVENT_READ, self._ready)
            self._is_watched = True

    def leave(self) -> None:
        """Leave what it says where it is."""
        if self._is_watched:
            self._selector.unregister(self.fd)
            self._is_watched = False

    def end(self) -> None:
        """Read what is left, and close it: no more than a pipe holds, as a program that was handed the other end may go on."""
        _ = any(self.fd < 0 or not self._read() for _ in range(_MOST_LEFT_BYTES // _READ_BYTES))
        self._close()

    def _ready(self) -> bool:
        self._read()
        return True

    def _read(self) -> bool:
        """Read once; tell whether there may be more."""
        try:
            piece = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if piece:
            self._take(piece)
        else:
            self._close()
        return bool(piece)

    def _close(self) -> None:
        self.leave()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Job:
    """One job; `hard_deadline` is when the supervisor no longer trusts the keeper to end it.

    It has ended when its `outcome` has, which brings the result.  Of one that `stays` only the pieces are read, so the last of
    them is sent too.
    """

    def __init__(self, selector: selectors.BaseSelector, identity: int, keeper: int, result_fd: int, timeout_s: float) -> None:
        self.id = identity
        self.keeper = keeper
        self.outcome = OutputPipe(selector, result_fd, self._take_result)
        self.started = time.monotonic()
        self.hard_deadline = self.started + timeout_s + _GRACE_S
        self.capture: Capture | None = None
        self.outputs = [self.outcome]
        self.input_fd = -1
        self.stays = self.is_stopping = False
        self.memory_bytes = 0
        self.max_result_bytes = _MAX_RESULT_BYTES
        self.result = bytearray()
        self.shown_at = 0.0

    def _take_result(self, piece: bytes) -> None:
        if len(self.result) < self.max_result_bytes:
            self.result += piece


class RunningJobs:
    """Starts jobs, watches over them, and hands each over once when it has ended."""

    def __init__(self, selector: selectors.BaseSelector, private_fds: tuple[int, ...], max_processes: int) -> None:
        self._selector = selector
        self._private_fds = private_fds
        self._max_processes = max_processes
        self.jobs: dict[int, Job] = {}  # those that are under way
        self._watched_at = 0.0

    def start(
        self,
        identity: int,
        task: Callable[[], Message],
        timeout_s: float,
        ours: tuple[int, ...] = (),
        theirs: tuple[int, ...] = (),
    ) -> Job:
        """Do a task in its own process; of pipes between it and this one, it alone gets the ends that are `theirs`.

        Raises:
            OSError: no process could be made.
        """
        reading, writing = os.pipe()
        others = [fd for job in self.jobs.values() for fd in (job.input_fd, *(output.fd for output in job.outputs))]
        try:
            keeper = os.fork()
            if keeper == 0:
                execute.keep(task, writing, (*self._private_fds, *others, reading, *ours))
        except OSError:
            execute.close_all(reading, *ours)
            raise
        finally:
            execute.close_all(writing, *theirs)
        job = self.jobs[identity] = Job(self._selector, identity, keeper, reading, timeout_s)
        return job

    def start_command(
        self, identity: int, message: Message, run: Callable[[float, int, int], Message], capture: Capture
    ) -> None:
        """Run a command with the limits of a message.

        In the keeper `run` gets its seconds and the descriptors of its output and its input (-1: none).

        Raises:
            OSError: no process could be made.
        """
        timeout_s, stays = float(message["timeout_s"]), bool(message.get("takes_input"))
        reading, writing = os.pipe()
        taking, giving = os.pipe() if stays else (-1, -1)
        task = partial(run, timeout_s, writing, taking)
        job = self.start(identity, task, timeout_s, (reading, giving), (writing, taking))
        job.capture, job.input_fd, job.stays = capture, giving, stays
        job.memory_bytes = int(message["memory_mb"]) << 20
        job.outputs.append(OutputPipe(self._selector, reading, capture.add))
        if stays:
            os.set_blocking(giving, False)

    def feed(self, identity: int, data: bytes) -> int:
        """Give a command input; return how many bytes it took."""
        job = self.jobs.get(identity)
        if job is None or job.input_fd < 0:
            raise Refused("it takes no input: it has ended, or its input is closed")
        try:
            return os.write(job.input_fd, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            os.close(job.input_fd)
            job.input_fd = -1
            return 0

    def stop(self, identity: int, number: int = execute.SIGNAL_CANCEL) -> None:
        """Ask a keeper to end its job; one that does not in time is ended from here."""
        job = self.jobs.get(identity)
        if job is not None:
            job.is_stopping = True
            job.hard_deadline = min(job.hard_deadline, time.monotonic() + _CANCEL_GRACE_S)
            process_tree.send_signal(job.keeper, number)

    def wait_s(self) -> float | None:
        """Return how long the loop may sleep."""
        if not self.jobs:
            return None
        return LIVE_EVERY_S if any(job.capture and job.capture.live for job in self.jobs.values()) else _TICK_S

    def take_finished(self) -> list[tuple[Job, Message]]:
        """Return the jobs that ended since, with their results; nothing of them runs any more."""
        finished = [job for job in self.jobs.values() if job.outcome.fd < 0]
        for job in finished:
            del self.jobs[job.id]
            if not _parse(job.result):
                self._end_orphans()
            for output in job.outputs:
                output.end()
            if job.capture is not None:
                job.capture.close()
            if job.input_fd >= 0:
                os.close(job.input_fd)
        return [(job, _parse(job.result) or {"reason": "killed"}) for job in finished]

    def watch(self) -> None:
        """Hold commands to their memory and number of processes, and end keepers that are overdue."""
        now = time.monotonic()
        if now - self._watched_at < _TICK_S:
            return
        self._watched_at = now
        for job in self.jobs.values():
            if now > job.hard_deadline:
                self._end_by_force(job)
            elif job.memory_bytes and not job.is_stopping:
                self._hold_to_limits(job)

    def reap(self) -> None:
        """Take the exits of keepers and of processes that lost theirs."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass

    def end_all(self) -> None:
        """Kill every process below the supervisor."""
        if os.getpid() == 1:
            process_tree.send_signal(-1, signal.SIGKILL)
        process_tree.kill_below(os.getpid(), time.monotonic() + 1.0)

    def _hold_to_limits(self, job: Job) -> None:
        pids = process_tree.descendants(job.keeper)
        if len(pids) > 2 * self._max_processes:  # hard limits come first where there are any
            self.stop(job.id, execute.SIGNAL_PROCESSES)
        elif process_tree.memory_bytes(pids) > job.memory_bytes and process_tree.exact_memory_bytes(pids) > job.memory_bytes:
            self.stop(job.id, execute.SIGNAL_MEMORY)

    def _end_by_force(self, job: Job) -> None:
        """End a job whose keeper is stopped, lost or too slow; its orphans come to the supervisor and end here."""
        process_tree.send_signal(job.keeper, signal.SIGKILL)
        self.reap()
        self._end_orphans()
        if os.getpid() == 1 and process_tree.descendants(job.keeper):
            process_tree.send_signal(-1, signal.SIGKILL)
        job.hard_deadline = time.monotonic() + _CANCEL_GRACE_S

    def _end_orphans(self) -> None:
        """Kill what is directly below the supervisor and is not a keeper."""
        keepers = frozenset(job.keeper for job in self.jobs.values())
        if not process_tree.kill_below(os.getpid(), time.monotonic() + 1.0, keepers) and os.getpid() == 1:
            process_tree.send_signal(-1, signal.SIGKILL)


class Service:
    """Starts the program, carries its bytes, and says how it ended."""

    def __init__(
        self, selector: selectors.BaseSelector, jobs: RunningJobs, options: Settings, send: Callable[[Message], None]
    ) -> None:
        self._selector = selector
        self._jobs = jobs
        self._options = options
        self._send = send
        self.id = 0
        self._input = -1
        self._waiting = bytearray()
        self._outputs: list[OutputPipe] = []

    def start(self, identity: int, message: Message) -> None:
        """Start the program.

        Raises:
            Refused: this instance serves nothing, serves already, or has no such program.
            OSError: no process could be made.
        """
        if not self._options.serves or self.id:
            raise Refused(f"this instance serves {'a program already' if self.id else 'no program'}")
        variables = {str(key): str(value) for key, value in message["variables"].items()}
        environment = self._options.commands_environment | variables
        folder = os.path.join(self._options.root, str(message["folder"]))
        name, *rest = message["arguments"]
        whole = os.path.join(folder, name) if "/" in name else name
        path = import_module("shutil").which(whole, path=environment.get("PATH", ""))
        if path is None:
            raise Refused(f"the program {name} is not there")
        (input_r, input_w), (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe(), os.pipe()
        options = self._options.with_values(root=folder)
        task = partial(execute.run, (path, *rest), environment, _FOREVER_S, options, out_w, given=input_r, errors=err_w)
        job = self._jobs.start(identity, task, _FOREVER_S, (input_w, out_r, err_r), (input_r, out_w, err_w))
        job.memory_bytes = int(message["memory_mb"]) << 20
        self.id, self._input = identity, input_w
        os.set_blocking(input_w, False)
        pipes = (("out", out_r), ("err", err_r))
        self._outputs = [OutputPipe(self._selector, fd, partial(self._send_piece, name)) for name, fd in pipes]
        job.outputs += self._outputs

    def feed(self, target: int, data: bytes) -> None:
        """Put more behind what waits to be its input; what it does not take in the end, ends it."""
        if target != self.id or self._input < 0:
            return
        if len(self._waiting) + len(data) > _MOST_WAITING_BYTES:
            self._jobs.stop(self.id)
            return
        if not self._waiting:
            self._selector.register(self._input, selectors.EVENT_WRITE, self._write)
        self._waiting += data

    def watch(self, *, is_taken: bool) -> None:
        """Read its outputs, or leave them where they are if the other end has enough for now."""
        for output in self._outputs:
            (output.watch if is_taken else output.leave)()

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

    def _send_piece(self, name: str, piece: bytes) -> None:
        self._send({"id": self.id, name: protocol.pack(piece)})


def _parse(result: bytearray) -> Message:
    with suppress(ValueError):
        return dict(json.loads(result))
    return {}
