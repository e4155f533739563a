"""What was typed, kept per workspace: the prompt's history and its draft.  Blocks (disk): call it from a thread."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

MAX_ENTRIES = 1000


class PromptStore:
    """Two small files in the user's state folder, named after a hash of the workspace's path; lost files lose nothing else."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        name = hashlib.sha256(str(workspace).encode()).hexdigest()[:16]
        self._history = folder / f"{name}.jsonl"
        self._draft = folder / f"{name}.draft"

    def history(self) -> list[str]:
        """Return what was sent, oldest first; lines that cannot be read are left out."""
        try:
            lines = self._history.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        return [text for text in map(_entry, lines[-MAX_ENTRIES:]) if text]

    def draft(self) -> str:
        """Return what was typed and not sent, else an empty string."""
        try:
            return self._draft.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def add(self, text: str) -> None:
        """Append to the history.

        Raises:
            OSError: it could not be written.
        """
        self._history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._history.open("a", encoding="utf-8", errors="replace") as file:
            file.write(json.dumps(text) + "\n")

    def save_draft(self, text: str) -> None:
        """Keep the draft; an empty one removes the file.

        Raises:
            OSError: it could not be written.
        """
        if not text:
            with contextlib.suppress(FileNotFoundError):
                self._draft.unlink()
            return
        self._draft.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._draft.write_text(text, "utf-8", errors="replace")


def _entry(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
