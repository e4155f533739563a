"""Slash commands as words: what is one, the names of lmtui's own in any of its front ends, and the nearest to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

OWN_NAMES = frozenset({
    "background", "budget", "cache", "calls", "changes", "clear", "close", "commands", "compact", "config", "context", "deep",
    "exit", "export", "files", "find", "find-file", "fork", "grid", "help", "init", "instructions", "jobs", "log",
    "mark", "mcp", "mode", "model", "models", "mouse", "new", "next", "perf", "permissions", "plan", "previous",
    "promote", "quit", "redo", "rename", "resume", "rewind", "rules", "search", "session", "sessions", "settings",
    "skill", "skills", "soul", "status", "submit", "theme", "todo", "todos", "trust", "undo", "zoom",
})  # fmt: skip
"""No file can take one of them."""
AS_WORDS = "A blank in front of it sends it to the model as words."


def slash_call(text: str) -> tuple[str, str] | None:
    """Return the name and the argument of a slash command.

    None for words: what begins with anything else, a blank too, and a first word that is a path, as `/usr/bin` or `/a.txt`.
    """
    if not text.startswith("/"):
        return None
    head, *rest = text.split(maxsplit=1)
    name = head[1:]
    return (name, rest[0].strip() if rest else "") if name and "/" not in name and "." not in name else None


def nearest(name: str, names: Iterable[str]) -> str:
    """Return which name was meant, as it is typed, in a sentence; empty where none is near."""
    close = difflib.get_close_matches(name.lower(), list(names), n=1)
    return f"Did you mean /{close[0]}?" if close else ""
