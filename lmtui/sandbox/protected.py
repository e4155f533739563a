"""Which existing paths a lane gets read-only: git folders and what programs outside run, wherever they are in the workspace."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable
from lmtui.paths import PROTECTED_NAMES
from lmtui.sandbox.inside.survey import RUN_OUTSIDE, plain_name
from lmtui.sandbox.link import Lane

_SKIPPED = frozenset(("node_modules", ".venv", "venv", "__pycache__", ".tox", ".mypy_cache"))
_MAX_PATHS = 48
_MAX_ENTRIES = 5_000
_MAX_DEPTH = 5
_MAX_SECONDS = 0.05


def read_only_paths(workspace: Path, lane: Lane) -> list[str]:
    """Return paths relative to the workspace, to be mounted read-only.  Blocks for at most 50 ms.

    Only lanes that run commands get more than `.git` and `.lmagent`: git has to be able to check files out.

    Raises:
        SandboxUnavailable: one of the two is a symbolic link.
    """
    paths: list[str] = []
    for name in PROTECTED_NAMES:
        source = workspace / name
        if source.is_symlink():
            raise SandboxUnavailable(f"{source} is a symbolic link; it must be a folder", "Replace the link by a folder.")
        if source.exists() and not (lane is Lane.GIT and name == ".git"):
            paths.append(name)
    return paths + (_further(workspace) if lane.runs_programs else [])


def _further(workspace: Path) -> list[str]:
    """Return what lies deeper, and what programs outside run; the nearest first, and no links."""
    found: list[str] = []
    folders = deque([("", 0)])
    entries_left, deadline = _MAX_ENTRIES, time.monotonic() + _MAX_SECONDS
    while folders and entries_left > 0 and len(found) < _MAX_PATHS and time.monotonic() < deadline:
        prefix, depth = folders.popleft()
        try:
            with os.scandir(workspace / prefix) as entries:
                for entry in entries:
                    entries_left -= 1
                    name = plain_name(entry.name)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    path = f"{prefix}/{entry.name}" if prefix else entry.name
                    if path in PROTECTED_NAMES or not (is_folder or entry.is_file(follow_symlinks=False)):
                        continue
                    if name == ".git" or name in RUN_OUTSIDE:
                        found.append(path)
                    elif is_folder and name not in _SKIPPED and depth < _MAX_DEPTH:
                        folders.append((path, depth + 1))
        except OSError:
            continue  # it may not be read; the survey after each command still looks
    return found[:_MAX_PATHS]
