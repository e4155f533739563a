"""Limits of a whole lane by a control group, where one can be made: processes, memory (temporary files too) and processor.

As root they are what holds (RLIMIT_NPROC does not apply to it); for others they stand behind the limits inside.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from lmtui.core.workspace import CommandLimits

_MOUNT = Path("/sys/fs/cgroup")
_OWN_PROCESSES = 16  # bubblewrap itself, the supervisor, and a keeper for each of some commands at once
_OWN_MEMORY_MB = 512  # the supervisor's, and that of pages that nobody counts
_CPU_PERIOD_US = 100_000
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs" || exit 125; done; shift; exec "$@"'


def around(arguments: Sequence[str], limits: CommandLimits, mount: Path = _MOUNT) -> list[str]:
    """Return the command that runs `arguments` in groups with these limits; the same arguments where none can be made.

    Groups of processes that are gone are removed on the way.
    """
    groups = [group for base, values in _bases(mount, limits) if (group := _make(base, values))]
    if not groups:
        return list(arguments)
    return ["/bin/sh", "-c", _JOIN, "sh", " ".join(map(str, groups)), *arguments]


def _bases(mount: Path, limits: CommandLimits) -> list[tuple[Path, dict[str, str]]]:
    """Return the folders where groups may be made, with the values that each knows."""
    processes = str(limits.processes + _OWN_PROCESSES)
    memory_bytes = str((limits.memory_mb + limits.tmp_mb + _OWN_MEMORY_MB) << 20)
    quota_us = str(limits.cores * _CPU_PERIOD_US) if limits.cores else ""
    if (mount / "pids" / "cgroup.procs").exists():  # version 1: a hierarchy for each kind
        cpu = {"cpu.cfs_period_us": str(_CPU_PERIOD_US), "cpu.cfs_quota_us": quota_us or "-1"}
        kinds = {"pids": {"pids.max": processes}, "memory": {"memory.limit_in_bytes": memory_bytes}, "cpu": cpu}
        own = {kind: _below_own(mount / kind, kind) for kind in kinds}
        return [(own[kind], values) for kind, values in kinds.items() if _is_usable(own[kind])]
    base = mount if os.geteuid() == 0 else _delegated(mount)
    try:
        offered = (base / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []
    values = {
        "pids": ("pids.max", processes),
        "memory": ("memory.max", memory_bytes),
        "cpu": ("cpu.max", f"{quota_us or 'max'} {_CPU_PERIOD_US}"),
    }
    chosen = dict(values[kind] for kind in values if kind in offered)
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
