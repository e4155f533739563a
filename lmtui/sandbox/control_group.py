"""Limits of a whole lane by a control group, where one can be made: processes, memory (temporary files too) and processor.

As root they are what holds (RLIMIT_NPROC does not apply to it); for others they stand behind the limits inside.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_OWN_PROCESSES = 16  # bubblewrap itself, the supervisor, and a keeper for each of some commands at once
_MEMORY_BYTES = 3 << 30  # the most that a command may ask for, the supervisor, and the temporary files
_CPU_PERIOD_US = 100_000
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs" || exit 125; done; shift; exec "$@"'


def around(arguments: Sequence[str], max_processes: int, mount: Path = _MOUNT) -> list[str]:
    """Return the command that runs `arguments` in groups with these limits; the same arguments where none can be made.

    Groups of processes that are gone are removed on the way.
    """
    groups = [group for base, limits in _bases(mount, max_processes + _OWN_PROCESSES) if (group := _make(base, limits))]
    if not groups:
        return list(arguments)
    return ["/bin/sh", "-c", _JOIN, "sh", " ".join(map(str, groups)), *arguments]


def _bases(mount: Path, processes: int) -> list[tuple[Path, dict[str, str]]]:
    """Return the folders where groups may be made, with the limits that each knows."""
    if (mount / "pids" / "cgroup.procs").exists():  # version 1: a hierarchy for each kind
        cpu = {"cpu.cfs_period_us": str(_CPU_PERIOD_US), "cpu.cfs_quota_us": str(_CPU_PERIOD_US)}
        kinds = {"pids": {"pids.max": str(processes)}, "memory": {"memory.limit_in_bytes": str(_MEMORY_BYTES)}, "cpu": cpu}
        own = {kind: _below_own(mount / kind, kind) for kind in kinds}
        return [(own[kind], limits) for kind, limits in kinds.items() if _is_usable(own[kind])]
    base = mount if os.geteuid() == 0 else _delegated(mount)
    try:
        offered = (base / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []
    limits = {
        "pids": ("pids.max", str(processes)),
        "memory": ("memory.max", str(_MEMORY_BYTES)),
        "cpu": ("cpu.max", f"{_CPU_PERIOD_US} {_CPU_PERIOD_US}"),
    }
    chosen = dict(limits[kind] for kind in limits if kind in offered)
    return [(base, chosen)] if chosen and _is_usable(base) else []


def _below_own(hierarchy: Path, kind: str) -> Path:
    """Return this process's own group of a kind, so that what limits it limits the lane as well."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            if kind in kinds.split(",") and (hierarchy / path.lstrip("/")).is_dir():
                return hierarchy / path.lstrip("/")
    return hierarchy


def _delegated(mount: Path) -> Path:
    """Return the folder above this process's own group: in a user's session a group beside it may be made."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("::")[2].strip()
    except OSError:
        return mount
    return (mount / own.lstrip("/")).parent


def _is_usable(base: Path) -> bool:
    return os.access(base, os.W_OK | os.X_OK) and os.access(base / "cgroup.procs", os.W_OK)


def _make(base: Path, limits: dict[str, str]) -> Path | None:
    for old in base.glob("lmtui-*-*"):
        if not Path("/proc", old.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):  # still in use
                old.rmdir()
    group = base / f"lmtui-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        for name, value in limits.items():
            (group / name).write_text(value, encoding="ascii")
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None  # read-only in here: the limits inside still hold
    return group
