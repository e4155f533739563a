"""A command as a process tree: a keeper that outlives every process of it, and the child that becomes the command.

Everything here runs after a fork, in the keeper or in the child; the supervisor only calls `keep`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable

from . import confinement, linux, process_tree
from .beneath import Refused
from .protocol import Message
from .settings import Settings

SIGNAL_CANCEL = signal.SIGTERM
SIGNAL_MEMORY = signal.SIGUSR1
SIGNAL_PROCESSES = signal.SIGUSR2
_REASONS = {SIGNAL_CANCEL: "cancelled", SIGNAL_MEMORY: "memory", SIGNAL_PROCESSES: "processes"}
_CLEANING_S = 1.2
_NICENESS = 5  # the screen goes before what a command computes
_MOST_FILES, _MOST_ERRORS_BYTES = 8192, 65_536
_OOM_SCORE = b"500"  # the kernel's choice under memory pressure, before the supervisor


def keep(task: Callable[[], Message], result_fd: int, close_fds: tuple[int, ...]) -> None:
    """Turn this freshly forked process into a keeper: do the task, write its result as JSON, and end.  Does not return."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, *_REASONS))
        linux.set_process(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.set_process(linux.PR_SET_CHILD_SUBREAPER, 1)
        os.setpgid(0, 0)
        close_all(*close_fds)
        try:
            result = task()
        except Refused as refusal:
            result = {"error": str(refusal)}
        except OSError as error:
            result = {"error": f"the sandbox could not do it: {error}"}
        with os.fdopen(result_fd, "wb") as file:
            file.write(json.dumps(result).encode())
        status = 0
    finally:
        os._exit(status)


def close_all(*fds: int) -> None:
    """Close descriptors; -1 is none."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)


def run(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    timeout_s: float,
    settings: Settings,
    streams: tuple[int, int, int],
    *,
    is_read: bool = False,
) -> Message:
    """Run a command to its end, whatever that is, and leave nothing of it behind (called in the keeper).

    Args:
        arguments: the program and its arguments.
        environment: all its variables.
        timeout_s: when it is ended.
        settings: it runs in their `root`.
        streams: the descriptors of its input (-1 for nothing), its output, and its errors (-1 for its output).
        is_read: code reads its output, so what it says of errors follows behind, and only if it fails.
    """
    given, output, errors = streams
    apart = os.memfd_create("errors") if is_read else errors
    child = os.fork()
    if child == 0:
        _become(arguments, environment, settings, (given, output, apart))
    close_all(-1 if is_read else output, given, errors)
    reason, status = _wait(child, time.monotonic() + timeout_s)
    if reason != "exit":
        process_tree.send_signal(-child, signal.SIGKILL)  # before anything else: it leads its own session
    is_clean = process_tree.kill_below(os.getpid(), time.monotonic() + _CLEANING_S)
    code = os.waitstatus_to_exitcode(status)
    exit_code = {"exit": 128 - code if code < 0 else code, "timeout": 124}.get(reason, 137)
    if is_read and exit_code:
        os.sendfile(output, apart, 0, _MOST_ERRORS_BYTES)
    return {"exit": exit_code, "reason": reason, "clean": is_clean}


def _wait(child: int, deadline: float) -> tuple[str, int]:
    """Wait for the child, a signal from the supervisor, or the deadline; take orphans' exits meanwhile."""
    wanted = {signal.SIGCHLD, *_REASONS}
    while True:
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == child:
                process_tree.send_signal(-child, signal.SIGKILL)  # while its number is still its own
                return "exit", os.waitpid(child, 0)[1]
            os.waitpid(ended.si_pid, 0)
        left = deadline - time.monotonic()
        if left <= 0:
            return "timeout", 0
        caught = signal.sigtimedwait(wanted, left)
        if caught is not None and caught.si_signo in _REASONS:
            return _REASONS[signal.Signals(caught.si_signo)], 0


def _become(arguments: tuple[str, ...], environment: dict[str, str], settings: Settings, streams: tuple[int, int, int]) -> None:
    """Turn this process into the command.  Does not return."""
    given, output, errors = streams
    try:
        os.setsid()
        os.dup2(given if given >= 0 else os.open("/dev/null", os.O_RDWR), 0)
        os.dup2(output, 1)
        os.dup2(errors if errors >= 0 else output, 2)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(settings.root)
        _limit(settings)
        linux.set_process(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if settings.seccomp_filter:
            linux.set_process(linux.PR_SET_NO_NEW_PRIVS, 1)
            if settings.is_landlocked:
                confinement.restrict_files(settings, confinement.OWN_PROC)  # its own domain
            linux.install_filter(settings.seccomp_filter)
        _prefer_for_oom()
        os.execve(arguments[0], arguments, environment)  # noqa: S606  (no shell is meant: this becomes it)
    except OSError as error:
        os.write(2, f"{arguments[0]}: cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def _limit(settings: Settings) -> None:
    shared = settings.is_landlocked  # the limit counts everything of the user's
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: _MOST_FILES}
    if settings.is_confined:
        limits[resource.RLIMIT_FSIZE] = settings.max_file_mb << 20
    if settings.limits_processes:
        limits[resource.RLIMIT_NPROC] = settings.max_processes + (process_tree.count_of(os.getuid()) if shared else 0)
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))
    os.nice(_NICENESS)


def _prefer_for_oom() -> None:
    """Make the kernel take the command rather than the supervisor; the file opens only to a dumpable process."""
    try:
        linux.set_process(linux.PR_SET_DUMPABLE, 1)
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, _OOM_SCORE)
    except OSError:
        pass  # a kernel or a mount without it: the limits stand all the same
