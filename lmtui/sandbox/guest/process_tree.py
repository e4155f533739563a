"""Processes below a process: finding them, counting what they use, ending all of them.

A keeper is the subreaper of its command, so a daemon, a double fork or a new session changes nothing: every process of the
command stays below the keeper until it is dead.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PASSES_BEFORE_KILL = 20
_FREEZING_S = 1.0
_HALTED = (b"T", b"t", b"Z", b"X", b"x")  # proc(5): stopped, traced, dead
_MAX_LIST_BYTES = 65_536
_HAS_LISTS = os.access(f"/proc/self/task/{os.getpid()}/children", os.F_OK)  # CONFIG_PROC_CHILDREN


def descendants(pid: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """Return every process below `pid`, except the `spared` and what is below them; those that end meanwhile are left out."""
    found: list[int] = []
    seen = {pid, *spared}
    queue = [pid]
    while queue:
        for child in _children(queue.pop()):
            if child not in seen:
                seen.add(child)
                found.append(child)
                queue.append(child)
    return found


def kill_below(pid: int, deadline: float, spared: frozenset[int] = frozenset()) -> bool:
    """Kill every process below `pid` and reap this process's own children; False if some are left at the deadline.

    Whole process groups go first: one such kill is atomic against fork, so a bomb cannot outrun it.  What is left in other
    groups is stopped, pass after pass, until a pass finds nothing new, and then killed.

    Args:
        pid: the root, which is left alone.
        deadline: a time of `time.monotonic()`.
        spared: processes to leave alone, with everything below them.
    """
    kept_groups = {0, 1, os.getpgid(0), *(_group(other) for other in (pid, *spared))}
    while True:
        found = descendants(pid, spared)
        if not found:
            return True
        for group in {_group(child) for child in found} - kept_groups:
            send_signal(-group, signal.SIGKILL)
        stopped: set[int] = set()
        for _ in range(_PASSES_BEFORE_KILL):
            fresh = [child for child in descendants(pid, spared) if child not in stopped]
            if not fresh:
                break
            stopped.update(fresh)
            for child in fresh:
                send_signal(child, signal.SIGSTOP)
        for child in stopped:
            send_signal(child, signal.SIGKILL)
        _reap_for(0.002 if len(stopped) < 50 else 0.02)
        if time.monotonic() >= deadline:
            return not descendants(pid, spared)


def freeze() -> bool:
    """Stop every process below this one; return False if some did not stop in time.

    The first process of a namespace stops all others at once, which no fork can outrun.
    """
    pid, deadline = os.getpid(), time.monotonic() + _FREEZING_S
    while True:
        if pid == 1:
            send_signal(-1, signal.SIGSTOP)
        running = [child for child in descendants(pid) if not _is_halted(child)]
        if not running:
            return True
        for child in running:
            send_signal(child, signal.SIGSTOP)
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)


def thaw() -> None:
    """Let every process below this one go on."""
    for child in descendants(os.getpid()):
        send_signal(child, signal.SIGCONT)


def count_of(user: int) -> int:
    """Return how many processes and threads a user has, as far as they can be seen."""
    total = 0
    for name in _numbers("/proc"):
        try:
            if os.stat(f"/proc/{name}").st_uid == user:
                total += len(_numbers(f"/proc/{name}/task"))
        except OSError:
            continue
    return total


def memory_bytes(pids: list[int]) -> int:
    """Return the resident memory of processes; pages that several share count for each."""
    total = 0
    for pid in pids:
        try:
            total += int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE_BYTES
        except (OSError, IndexError, ValueError):
            continue
    return total


def exact_memory_bytes(pids: list[int]) -> int:
    """Return the resident memory of processes, shared pages counted once; costs much more than `memory_bytes`."""
    total = 0
    for pid in pids:
        try:
            total += int(_read(f"/proc/{pid}/smaps_rollup").split(b"Pss:", 1)[1].split()[0]) * 1024
        except (OSError, IndexError, ValueError):
            total += memory_bytes([pid])
    return total


def _children(pid: int) -> list[int]:
    try:
        threads = _numbers(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            found += [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]
        except FileNotFoundError:
            if not _HAS_LISTS:
                return _children_by_scan(pid)
        except OSError:
            continue
    return found


def _children_by_scan(parent: int) -> list[int]:
    found: list[int] = []
    for name in _numbers("/proc"):
        try:
            fields = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 1 and int(fields[1]) == parent and fields[0] not in (b"X", b"x"):
            found.append(int(name))
    return found


def _is_halted(pid: int) -> bool:
    """Tell whether no thread of a process runs."""
    try:
        threads = _numbers(f"/proc/{pid}/task")
        return all(_read(f"/proc/{pid}/task/{each}/stat").rpartition(b")")[2].split()[0] in _HALTED for each in threads)
    except (OSError, IndexError):
        return not os.path.exists(f"/proc/{pid}")


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, to a group (below 0), or to all (-1)."""
    with suppress(OSError):  # it is gone, which is as good
        os.kill(pid, number)


def _numbers(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.name.isdigit()]


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _MAX_LIST_BYTES)
    finally:
        os.close(fd)


def _reap_for(seconds: float) -> None:
    """Take the exits of this process's own children, waiting a little for them."""
    end = time.monotonic() + seconds
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] != 0:
                continue
        except ChildProcessError:
            return
        if time.monotonic() >= end:
            return
        time.sleep(0.0005)
