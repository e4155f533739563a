"""Which files a command changed, as far as a short walk can see."""

from __future__ import annotations

import os
import time
from collections import deque

_SKIPPED = frozenset((".git", ".lmagent", "node_modules", ".venv", "__pycache__"))
_MAX_ENTRIES = 20_000
_MAX_SECONDS = 0.05
_MAX_PATHS = 200
_COARSE_CLOCK = getattr(time, "CLOCK_REALTIME_COARSE", 5)  # the clock that file times are taken from


def now_ns() -> int:
    """Return the time that a file changed now would get."""
    return time.clock_gettime_ns(_COARSE_CLOCK)


def changed_since(root: str, start_ns: int) -> list[str]:
    """Return files below `root` whose inode changed at or after `start_ns`, folders near the root first.

    Bounded: 20,000 entries, 50 ms, 200 paths.  A deleted file leaves nothing that could be seen.
    """
    found: list[str] = []
    deadline = time.monotonic() + _MAX_SECONDS
    entries_left = _MAX_ENTRIES
    folders = deque([""])
    while folders:
        prefix = folders.popleft()
        try:
            with os.scandir(f"{root}/{prefix}") as entries:
                for entry in entries:
                    entries_left -= 1
                    if entry.name in _SKIPPED:
                        continue
                    path = f"{prefix}/{entry.name}" if prefix else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= start_ns:
                        found.append(os.fsencode(path).decode("utf-8", "replace"))
                    if entries_left <= 0 or len(found) >= _MAX_PATHS or time.monotonic() > deadline:
                        return sorted(found)
        except OSError:
            continue  # it went away, or may not be read
    return sorted(found)
