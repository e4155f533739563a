"""The demo's folder: fresh, for the real tools to work in."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line

_BROUGHT = frozenset({  # what people bring for an agent; the demo writes nothing of it
    ".lmagent", ".lmagent.md", ".soul.md", ".mcp.json", ".claude", ".agents", ".env", "AGENTS.md", "CLAUDE.md", "GEMINI.md",
})  # fmt: skip


def fresh_folder(folder: Path | None) -> Path:
    """Return a folder that the demo may write in: the one named, or a new one in the temporary folder.

    Raises:
        UsageError: it cannot be made, or holds more than what an agent uses (servers, skills, hooks, instructions).
    """
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="lmtui-demo-"))
    place = folder.expanduser().absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in place.iterdir() if path.name not in _BROUGHT)
    except OSError as error:
        raise UsageError(f"cannot use {place} for the demo: {error.strerror}", "Name a folder that can be made.") from error
    if others:
        raise UsageError(
            f"{place} holds {sanitize_line(others[0])}; the demo writes and commits, so it works in a separate folder",
            "Name a new folder, or one with nothing but .lmagent, AGENTS.md and the like.",
        )
    return place
