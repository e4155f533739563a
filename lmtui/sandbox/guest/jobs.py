"""The jobs under way: each has a keeper, a pipe for its result and, for a program, others for what it says and is told.

All of it runs in the supervisor's one thread and never waits.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from . import execute, process_tree
from .beneath import Refused
from .capture import Capture
from .protocol import Message

_READ_BYTES = 262_144
_MOST_LEFT_BYTES = 2 << 20  # pipe(7): without rights a pipe holds a megabyte at most; pieces may be short
_MAX_RESULT_BYTES = 900_000
_TICK_S = 0.05
LIVE_EVERY_S = 0.03
_GRACE_S = 2.0
_CANCEL_GRACE_S = 0.7


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


class InputPipe:
    """The input of a program.  `fd` is -1 once it has ended."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def write(self, data: bytes) -> int:
        """Write what it takes at once, and return how many bytes that is."""
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError:  # it closed its input; what it says last is still read
            self.close()
            return 0

    def close(self) -> None:
        """Close it; idempotent."""
        execute.close_all(self.fd)
        self.fd = -1


class Job:
    """One job; `hard_deadline` is when the supervisor no longer trusts the keeper to end it.

    It has ended when its `outcome` has, which brings the result.  One with an `input` stays.
    """

    def __init__(self, selector: selectors.BaseSelector, identity: int, keeper: int, result_fd: int, timeout_s: float) -> None:
        self.id = identity
        self.keeper = keeper
        self.outcome = OutputPipe(selector, result_fd, self._take_result)
        self.started = time.monotonic()
        self.hard_deadline = self.started + timeout_s + _GRACE_S
        self.capture: Capture | None = None
        self.outputs = [self.outcome]
        self.input: InputPipe | None = None
        self.is_stopping = False
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
        others = [pipe.fd for job in self.jobs.values() for pipe in (*job.outputs, job.input) if pipe is not None]
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

    def start_program(
        self,
        identity: int,
        message: Message,
        run: Callable[[tuple[int, int, int]], Message],
        timeout_s: float,
        takes: Sequence[Callable[[bytes], None]],
        *,
        has_input: bool,
    ) -> Job:
        """Run a program with the memory of a message.

        In the keeper `run` gets the descriptors of its input, its output and its errors; -1 is none.  `takes` get its output
        and, where there are two, its errors.

        Raises:
            OSError: no process could be made.
        """
        taking, giving = os.pipe() if has_input else (-1, -1)
        readings, writings = zip(*(os.pipe() for _ in takes), strict=True)
        task = partial(run, (taking, writings[0], writings[1] if writings[1:] else -1))
        job = self.start(identity, task, timeout_s, (giving, *readings), (taking, *writings))
        job.memory_bytes = int(message["memory_mb"]) << 20
        job.outputs += [OutputPipe(self._selector, *pair) for pair in zip(readings, takes, strict=True)]
        job.input = InputPipe(giving) if has_input else None
        return job

    def input_of(self, identity: int) -> InputPipe:
        """Return the open input of a program.

        Raises:
            Refused: there is none.
        """
        job = self.jobs.get(identity)
        if job is None or job.input is None or job.input.fd < 0:
            raise Refused("it takes no input: it has ended, or its input is closed")
        return job.input

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
            if job.input is not None:
                job.input.close()
        return [(job, _parse(job.result) or {"reason": "killed"}) for job in finished]

    def watch(self, *, is_taken: bool) -> None:
        """Hold commands to their memory and number of processes, and end keepers that are overdue.

        If the other end has enough for now (not `is_taken`), what programs say is left where it is, unless it is captured.
        """
        for output in (each for job in self.jobs.values() if job.capture is None for each in job.outputs[1:]):
            (output.watch if is_taken else output.leave)()
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


def _parse(result: bytearray) -> Message:
    with suppress(ValueError):
        return dict(json.loads(result))
    return {}
