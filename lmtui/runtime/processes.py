"""Who this process is, so that another on the same machine can see later whether it is still there."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

import psutil

from lmtui.automation.claims import Owner


@functools.cache
def this_process() -> Owner:
    """Return this process, its machine's boot and its process namespace among it."""
    return Owner(_machine(), os.getpid(), process_started(os.getpid()) or 0.0)


def is_alive(pid: int, started: float) -> bool:
    """Tell whether a process of this machine that began at a time is still there; in doubt it is."""
    now = process_started(pid)
    return now is not None and (started == 0.0 or abs(now - started) < 1.0)


def process_started(pid: int) -> float | None:
    """Return when a process began, in a measure that a clock that is set does not change; None where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else float(fields[19])  # proc(5): state and starttime, fields 3 and 22
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError, ValueError):
        return 0.0
    return _started_elsewhere(pid)


def _started_elsewhere(pid: int) -> float | None:
    """Do the same on a system without `/proc`."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return 0.0


def _machine() -> str:
    parts = [os.uname().nodename]
    with contextlib.suppress(OSError):
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()]
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)
