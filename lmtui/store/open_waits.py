"""Sessions whose log ends in a wait: found again where the program was killed before their wake was written down.

Only logs that changed since the last look are read; a file in the workspace's own folder says by its time when that was.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.errors import SessionFileError
from lmtui.core.events import ROOT, Envelope, TurnStarted
from lmtui.core.wait_events import WaitSet
from lmtui.paths import workspace_dir
from lmtui.store.codec import decode
from lmtui.store.sessions import SessionStore, is_in_use

_MARK_FILE = "waits.seen"
_SLACK_S = 2.0
_MOST = 500
_TAIL_BYTES = 1_048_576  # behind a wait stand the end of its turn and what opening the session adds
_SIGN = b'"kind":"wait_set"'


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait that holds still: the session, the event and its place in the log."""

    session_id: str
    event: WaitSet
    seq: int


def open_wait(events: Iterable[Envelope]) -> Envelope | None:
    """Return the event of the wait that holds after some events, told from the last on: a later turn would have ended it."""
    for envelope in events:
        if envelope.event.agent == ROOT and isinstance(envelope.event, TurnStarted):
            return None
        if envelope.event.agent == ROOT and isinstance(envelope.event, WaitSet):
            return envelope
    return None


class OpenWaits:
    """Looks through the sessions of a workspace; both methods block (disk)."""

    def __init__(self, workspace: Path) -> None:
        self._store = SessionStore(workspace)
        self._mark = workspace_dir(workspace) / _MARK_FILE
        self._looked_s = 0.0

    def look(self) -> list[OpenWait]:
        """Return the waits of sessions that changed since the last look, as far as nobody has them open."""
        now = time.time()
        seen = _changed_s(self._mark)
        since = seen - _SLACK_S if seen <= now else 0.0  # the clock was set back: all may have changed
        self._looked_s = now
        changed = sorted(((_changed_s(path), path) for path in self._store.paths()), reverse=True)
        found: list[OpenWait] = []
        for changed_s, path in changed[:_MOST]:
            if changed_s < since:
                break
            if is_in_use(path):
                self._looked_s = min(self._looked_s, changed_s)  # whoever has it may be killed too
            elif (wait := self._wait_in(path)) is not None:
                found.append(wait)
        return found

    def remember(self) -> None:
        """Keep that what was found has been dealt with; where nothing can be written the next look is a longer one."""
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            os.close(os.open(self._mark, flags, 0o600))
            os.utime(self._mark, (self._looked_s, self._looked_s), follow_symlinks=False)

    def _wait_in(self, path: Path) -> OpenWait | None:
        try:
            with path.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
                _ = file.seek(start)
                tail = file.read(_TAIL_BYTES)
        except OSError:
            return None
        last = open_wait(_backwards(tail, is_whole=start == 0)) if _SIGN in tail else None
        if last is None or not isinstance(last.event, WaitSet) or not self._store.is_ours(path.stem):
            return None
        return OpenWait(path.stem, last.event, last.seq)


def _backwards(tail: bytes, *, is_whole: bool) -> Iterator[Envelope]:
    """Yield the events of a log's end, the last first; what is cut at either end and what cannot be read is passed over."""
    for line in reversed(tail.splitlines(keepends=True)[0 if is_whole else 1 :]):
        with contextlib.suppress(SessionFileError):
            if line.endswith(b"\n"):
                yield decode(line.decode("utf-8", "replace"))


def _changed_s(path: Path) -> float:
    """Return when a file was changed last, 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
