"""Lists of sessions: what one line says of each, and searching their text."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.errors import SessionFileError
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Envelope,
    MessageAdded,
    ModelChanged,
    SessionRenamed,
    ToolCallFinished,
    TurnEnded,
    TurnStarted,
)
from lmtui.core.file_events import FilesChanged
from lmtui.core.messages import Role
from lmtui.core.sessions import SessionSummary
from lmtui.store.sessions import SessionStore, is_in_use, load


def summaries(store: SessionStore, search: str = "", limit: int = 50) -> list[SessionSummary]:
    """Return the newest sessions; with `search`, those whose text has all its words, case ignored.

    Logs that cannot be read are skipped.
    """
    words = search.casefold().split()
    found: list[SessionSummary] = []
    for path in store.paths():
        if len(found) >= limit:
            break
        try:
            events = load(path).events
        except SessionFileError:
            continue
        if events and (not words or _has_words(events, words)):
            found.append(summarise(path, events))
    return found


def summarise(path: Path, events: tuple[Envelope, ...]) -> SessionSummary:
    """Return one session as a list shows it."""
    title, model, state, last_line = "", "", "new", ""
    changed: set[str] = set()
    waiting: set[str] = set()
    for envelope in events:
        match envelope.event:
            case SessionRenamed(title=text):
                title = text
            case ModelChanged(model=name):
                model = name
            case FilesChanged(files=files):
                changed.update(files)
            case TurnStarted():
                state = "writing"
            case TurnEnded(reason=reason):
                state = str(reason)
            case ApprovalRequested(approval_id=approval_id):
                waiting.add(approval_id)
            case ApprovalResolved(approval_id=approval_id):
                waiting.discard(approval_id)
            case MessageAdded(role=Role.ASSISTANT, text=text) if text.strip():
                last_line = text.strip().splitlines()[-1]
            case _:
                pass
    if state == "writing" and waiting:
        state = "waits"
    elif state == "writing" and not is_in_use(path):
        state = "interrupted"
    return SessionSummary(
        id=path.stem,
        title=clean_line(title),
        state=state,
        model=clean_line(model),
        created=events[0].time,
        updated=_latest(events),
        changed_files=len(changed),
        last_line=clean_line(last_line)[:200],
    )


def _latest(events: tuple[Envelope, ...]) -> datetime:
    return events[-1].time


def _has_words(events: tuple[Envelope, ...], words: list[str]) -> bool:
    missing = set(words)
    for envelope in events:
        match envelope.event:
            case MessageAdded(text=text) | ToolCallFinished(result=text) | SessionRenamed(title=text):
                folded = text.casefold()
                missing = {word for word in missing if word not in folded}
            case _:
                continue
        if not missing:
            return True
    return not missing
