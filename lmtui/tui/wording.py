"""What the screen says in plain words: activity, tokens, times, folders.  Pure functions over facts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from lmtui.core.events import TurnReason
from lmtui.tui.facts import Activity, Doing, Facts

CHARS_PER_TOKEN = 4
RATE_AFTER_S = 2.0

_ENDINGS = {
    TurnReason.BLOCKED: "blocked",
    TurnReason.LIMIT: "stopped at a limit",
    TurnReason.INTERRUPTED: "interrupted",
    TurnReason.ERROR: "failed",
    TurnReason.WAITING: "waits for its time",
}


def activity_text(facts: Facts, now: datetime) -> str:
    """Return what goes on in a session, such as `shell: pytest -q · 4 s`."""
    if facts.approvals:
        return f"waiting for you: {len(facts.approvals)}"
    if not facts.is_running:
        ending = _ENDINGS.get(facts.reason) if facts.reason else None
        return f"idle · {ending}" if ending else "idle"
    activity = facts.activity
    parts = [_doing_text(activity)]
    elapsed_s = max(0.0, (now - activity.since).total_seconds()) if activity.since else 0.0
    if activity.doing is Doing.WRITING:
        rate = activity.chars / CHARS_PER_TOKEN / elapsed_s if elapsed_s >= RATE_AFTER_S else 0.0
        if rate:
            parts.append(f"{rate:.0f} tok/s")
    elif elapsed_s >= 1:
        parts.append(duration_text(elapsed_s))
    return " · ".join(parts)


def _doing_text(activity: Activity) -> str:
    match activity.doing:
        case Doing.READING:
            return f"reading prompt {activity.ratio * 100:.0f} %" if activity.ratio >= 0 else "reading prompt"
        case Doing.WRITING_CALL:
            return f"writing {activity.detail} call"
        case Doing.RUNNING_TOOL:
            return activity.detail
        case Doing.RETRYING:
            return f"{activity.detail}, again in {activity.wait_s:.0f} s"
        case Doing.WAITING_FOR_MODEL:
            return "waiting for the model"
        case _:
            return activity.doing.value


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


def usage_text(facts: Facts) -> str:
    """Return the tokens used of the window, such as `3.1k of 8k`; empty before the first request."""
    if facts.usage is None:
        return ""
    used = facts.usage.usage.prompt_tokens + facts.usage.usage.completion_tokens
    sign = "≈" if facts.usage.is_estimate else ""
    return (
        f"{sign}{tokens_text(used)} of {window_text(facts.window_tokens)}" if facts.window_tokens else sign + tokens_text(used)
    )


def reused_text(facts: Facts) -> str:
    """Return which part of the last prompt the server had kept, such as `reused 96 %`."""
    if facts.usage is None or not facts.usage.usage.prompt_tokens or not facts.usage.usage.cached_tokens:
        return ""
    return f"reused {100 * facts.usage.usage.cached_tokens // facts.usage.usage.prompt_tokens} %"


def sandbox_text(facts: Facts) -> str:
    """Return the sandbox in a few words: `docker, no network`."""
    if facts.sandbox is None:
        return "not started"
    network = "no network" if facts.sandbox.network == "none" else f"network {facts.sandbox.network}"
    backend = {"process": "no sandbox", "files": "no shell"}.get(facts.sandbox.backend, facts.sandbox.backend)
    return f"{backend}, {network}"


def folder_text(folder: Path, home: Path) -> str:
    """Return a folder with the home folder as `~`."""
    return f"~/{folder.relative_to(home)}" if folder != home and folder.is_relative_to(home) else str(folder)


def shorten_middle(text: str, width: int) -> str:
    """Return text cut to a width in characters with an ellipsis in its middle, so that a path keeps its end."""
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
