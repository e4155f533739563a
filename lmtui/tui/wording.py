"""How the screen writes times, tokens, folders and modes.  Pure functions, light to import."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

_VERBS = {
    "read": ("Read", ""), "data_view": ("Read", ""), "look": ("Look", ""), "ls": ("List", ""), "glob": ("Search", ""),
    "grep": ("Search", ""), "write": ("Write", ""), "mkdir": ("Create", ""), "edit": ("Edit", ""), "shell": ("Run", ""),
    "python": ("Run", "python"), "background": ("Run", "in background"), "delegate": ("Agent", ""), "explore": ("Agent", ""),
    "decompose": ("Agent", ""), "propose_plan": ("Plan", ""), "manage_tasks": ("Todo", ""), "task_todo_set": ("Todo", ""),
    "skill": ("Skill", ""), "fetch": ("Fetch", ""), "web_search": ("Search", "the web for"),
    "wait": ("Wait", ""), "get_time": ("Time", ""), "report_result": ("Report", ""),
}  # fmt: skip
_FAMILIES = {"git": "Git", "todo": "Todo", "plan": "Plan", "task": "Todo"}
PATH_VERBS = frozenset({"Read", "Look", "List", "Write", "Create", "Edit"})


def call_words(tool: str, title: str) -> tuple[str, str]:
    """Return a tool call as a verb and what it is about: `Read`, `parser/lexer.py`.  A tool of others is named itself."""
    if tool in _VERBS:
        verb, before = _VERBS[tool]
        return verb, f"{before} {title}".strip()
    family, _, rest = tool.partition("_")
    if rest and family in _FAMILIES:
        return _FAMILIES[family], f"{rest.replace('_', ' ')} {title}".strip()
    return "Call", f"{tool} {title}".strip()


_DOING = {
    "Read": "Reading", "Look": "Looking at", "List": "Listing", "Search": "Searching", "Write": "Writing", "Create": "Creating",
    "Edit": "Editing", "Run": "Running", "Fetch": "Fetching", "Call": "Calling",
}  # fmt: skip


def doing_words(tool: str, title: str) -> str:
    """Return what a call does while it runs: `Running pytest -q`."""
    verb, about = call_words(tool, title)
    return f"{_DOING.get(verb, verb)} {about}".rstrip()


def duration_text(seconds: float) -> str:
    """Return a duration in its largest units: `4 s`, `3 min`, `2 h`, `5 d`."""
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86400)} d"


def age_text(then: datetime, now: datetime) -> str:
    """Return how long ago something was; under five seconds is `now`."""
    seconds = (now - then).total_seconds()
    return "now" if seconds < 5 else duration_text(seconds)


def tokens_text(count: int) -> str:
    """Return a number of tokens in at most four characters or so: `950`, `3.1k`, `32k`."""
    if count < 1000:
        return str(count)
    thousands = count / 1000
    return f"{thousands:.1f}k".replace(".0k", "k") if thousands < 10 else f"{thousands:.0f}k"


def window_text(count: int) -> str:
    """Return a context window: powers of two in their usual names (8,192 is `8k`)."""
    return f"{count // 1024}k" if count % 1024 == 0 else tokens_text(count)


def folder_text(folder: Path, home: Path) -> str:
    """Return a folder with the home folder as `~`."""
    return f"~/{folder.relative_to(home)}" if folder != home and folder.is_relative_to(home) else str(folder)
