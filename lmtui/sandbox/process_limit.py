"""A limit on the number of processes that also holds for root, to whom RLIMIT_NPROC does not apply: a pids cgroup."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/pids")
_V2 = Path("/sys/fs/cgroup")
_OWN = 16  # bubblewrap itself, the supervisor, and a keeper for each of some commands at once
_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def around(arguments: Sequence[str], max_processes: int) -> list[str]:
    """Return the command that runs `arguments` in a cgroup with this limit; the same arguments where that cannot be.

    For other users than root the limit inside holds.  Groups of processes that are gone are removed on the way.
    """
    base = _base() if os.geteuid() == 0 else None
    if base is None:
        return list(arguments)
    for old in base.glob("lmtui-*-*"):
        if not Path("/proc", old.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):  # still in use
                old.rmdir()
    group = base / f"lmtui-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        (group / "pids.max").write_text(str(max_processes + _OWN), encoding="ascii")
    except OSError:
        return list(arguments)  # read-only in here: the watchdog inside still counts
    return ["/bin/sh", "-c", _JOIN, str(group), *arguments]


def _base() -> Path | None:
    if (_V1 / "cgroup.procs").exists():
        return _V1
    try:
        has_pids = "pids" in (_V2 / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return None
    return _V2 if has_pids else None
