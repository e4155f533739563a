"""A sign that a scheduler works on a workspace, seen by every process of the machine; it goes with its owner."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lmtui.core.errors import SessionFileError
from lmtui.paths import workspace_dir
from lmtui.store.sessions import make_workspace_folder

_LOCK_FILE = "scheduler.lock"
_GATE_S = 2.0
_GATE_NAP_S = 0.01


class Presence:
    """One scheduler's sign, a lock that many may share; all methods block (disk).

    Whoever looks or enters holds the folder's own lock meanwhile: a lock that is turned from alone to shared is let go of in
    between, and two that enter at once would both find nobody there.
    """

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._path = workspace_dir(workspace) / _LOCK_FILE
        self._descriptor = -1

    def enter(self) -> bool:
        """Say that one is here; True where it is the only one.  Where nothing can be written, it is."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            make_workspace_folder(self._workspace)
            self._descriptor = os.open(self._path, flags, 0o600)
        except (OSError, SessionFileError):
            return True
        with _gate(self._path.parent):
            is_first = _locked(self._descriptor, fcntl.LOCK_EX)
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return is_first

    def is_anyone(self) -> bool:
        """Tell whether a scheduler is here."""
        with contextlib.suppress(OSError), _gate(self._path.parent):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                return not _locked(descriptor, fcntl.LOCK_EX)
            finally:
                os.close(descriptor)
        return False

    def leave(self) -> None:
        """Say that this one is gone; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextlib.contextmanager
def _gate(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; whoever does not let go of it in time (a process that was stopped there) is passed by."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + _GATE_S
        while not _locked(descriptor, fcntl.LOCK_EX) and time.monotonic() < end:
            time.sleep(_GATE_NAP_S)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
