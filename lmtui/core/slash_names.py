"""The names of lmtui's own slash commands, in any of its front ends: no file can take one of them."""

from __future__ import annotations

OWN_NAMES = frozenset({
    "budget", "cache", "calls", "changes", "clear", "close", "commands", "compact", "config", "context", "deep",
    "exit", "export", "files", "find", "find-file", "fork", "grid", "help", "init", "instructions", "jobs", "log",
    "mark", "mcp", "mode", "model", "models", "mouse", "new", "next", "perf", "permissions", "plan", "previous",
    "promote", "quit", "redo", "rename", "resume", "rewind", "rules", "search", "session", "sessions", "settings",
    "skill", "skills", "soul", "status", "submit", "theme", "todo", "todos", "trust", "undo", "zoom",
})  # fmt: skip
