"""Which sessions were open, kept per workspace, so that they are open again after a restart or a crash.  Blocks (disk)."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

MOST_OPEN = 20
MOST_MARKS = 200
_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class OpenSessions:
    """The ids of the open sessions, the one on screen, and those that are marked."""

    ids: tuple[str, ...] = ()
    active: str = ""
    marks: frozenset[str] = field(default_factory=frozenset)


class OpenStore:
    """One file in the user's state folder, named after a hash of the workspace's path."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        name = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._path = folder / f"{name}.json"

    def read(self) -> OpenSessions:
        """Return what was kept; a file that cannot be read is as if there were none."""
        try:
            with self._path.open("rb") as file:
                value = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError):
            return OpenSessions()
        if not isinstance(value, dict):
            return OpenSessions()
        active = value.get("active")
        return OpenSessions(
            tuple(_texts(value.get("open")))[:MOST_OPEN],
            active if isinstance(active, str) else "",
            frozenset(_texts(value.get("marks"))),
        )

    def write(self, opened: OpenSessions) -> None:
        """Keep it, in one step: the session on screen and the newest of the others.

        Raises:
            OSError: it could not be written.
        """
        ids = [each for each in opened.ids if each != opened.active][-(MOST_OPEN - 1) :]
        ids += [opened.active] if opened.active else []
        value = {"open": sorted(ids), "active": opened.active, "marks": sorted(opened.marks)[-MOST_MARKS:]}
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self._path.with_suffix(f".{os.getpid()}.new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(value, file)
        new.replace(self._path)


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
