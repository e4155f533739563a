"""What was typed, kept per workspace: the prompt's history, and a draft for each session.  Blocks (disk)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path

from lmtui.tui.folding import Typed

MAX_ENTRIES = 1000
MAX_DRAFTS = 50
_SUFFIX = ".json"


class PromptStore:
    """Files in the user's state folder, named after a hash of the workspace's path; lost files lose nothing else."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        name = hashlib.sha256(str(workspace).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._history = folder / f"{name}.jsonl"
        self._drafts = folder / f"{name}.drafts"

    def history(self) -> list[Typed]:
        """Return what was sent, oldest first; lines that cannot be read are left out."""
        try:
            lines = self._history.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        return [entry for entry in map(_read, lines[-MAX_ENTRIES:]) if entry.text]

    def add(self, typed: Typed) -> None:
        """Append to the history.

        Raises:
            OSError: it could not be written.
        """
        self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._history, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "a", encoding="utf-8", errors="replace") as file:
            file.write(_line(typed))

    def draft(self, session_id: str) -> Typed:
        """Return what was typed in a session and not sent."""
        return self._read_draft(self._drafts / f"{session_id}{_SUFFIX}")[0]

    def take_newest_draft(self, session_id: str, others: Collection[str] = ()) -> Typed:
        """Return the newest draft of this workspace that no running lmtui holds; from now on it is this session's.

        What belongs to one of `others` (sessions that are open again) stays there.
        """
        for path in self._paths():
            typed, pid = self._read_draft(path)
            if typed.text and not _is_alive(pid) and path.name.removesuffix(_SUFFIX) not in others:
                with contextlib.suppress(OSError):
                    self.save_draft(session_id, typed)
                    path.unlink(missing_ok=True)
                return typed
        return Typed("")

    def save_draft(self, session_id: str, typed: Typed) -> None:
        """Keep a draft, in one step; an empty one removes the file.

        Raises:
            OSError: it could not be written.
        """
        path = self._drafts / f"{session_id}{_SUFFIX}"
        if not typed.text:
            path.unlink(missing_ok=True)
            return
        self._drafts.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_suffix(f".{os.getpid()}.new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(_line(typed, pid=os.getpid()))
        new.replace(path)
        for old in self._paths()[MAX_DRAFTS:]:
            old.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        """Return the files of drafts, newest first."""
        try:
            found = [
                (entry.stat().st_mtime_ns, entry.path) for entry in os.scandir(self._drafts) if entry.name.endswith(_SUFFIX)
            ]
        except OSError:
            return []
        return [Path(path) for _, path in sorted(found, reverse=True)]

    def _read_draft(self, path: Path) -> tuple[Typed, int]:
        """Return a draft and the process that wrote it."""
        try:
            text = path.read_text("utf-8")
            value = json.loads(text)
        except (OSError, ValueError):
            return Typed(""), 0
        pid = value.get("pid") if isinstance(value, dict) else 0
        return _read(text), pid if isinstance(pid, int) else 0


def _line(typed: Typed, **more: int) -> str:
    """Return a text as one line of JSON: a string, or an object where it holds more."""
    value = {"text": typed.text, "pastes": dict(typed.pastes), **more} if typed.pastes or more else typed.text
    return json.dumps(value) + "\n"


def _read(line: str) -> Typed:
    try:
        value = json.loads(line)
    except ValueError:
        return Typed("")
    if isinstance(value, str):
        return Typed(value)
    text, pastes = (value.get("text"), value.get("pastes")) if isinstance(value, dict) else ("", {})
    if not isinstance(text, str):
        return Typed("")
    known = pastes.items() if isinstance(pastes, dict) else ()
    return Typed(text, {key: each for key, each in known if isinstance(each, str)})


def _is_alive(pid: int) -> bool:
    """Tell whether another process that wrote a draft still runs."""
    if pid <= 0 or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
