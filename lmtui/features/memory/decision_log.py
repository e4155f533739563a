"""The log of what was decided and done: `.lmagent/decisions.jsonl`, one JSON object for each finished turn that changed files.

It is for people and for searches; nothing of it is sent to a model by itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lmtui.core.agent_events import PlanDecided
from lmtui.core.errors import SessionFileError
from lmtui.core.events import (
    ROOT,
    Envelope,
    MessageAdded,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import Role
from lmtui.core.sanitize import sanitize_line
from lmtui.paths import workspace_dir
from lmtui.plain_files import NotPlain, read_plain
from lmtui.store.session_logs import make_workspace_folder

NAME = "decisions.jsonl"
NO_DECISIONS = "No decisions yet. Finished turns that change files are logged here."
_MAX_BYTES, _MOST_CHARS, _MOST_NAMED = 67_108_864, 300, 20
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenTurn:
    """What was asked and done in the turn under way."""

    task: str = ""
    plan: str = ""
    commands: list[str] = field(default_factory=list)
    running: dict[str, str] = field(default_factory=dict)


class DecisionLog:
    """Writes the log of one workspace from what its sessions say."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._turns: dict[str, _OpenTurn] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def take(self, envelope: Envelope) -> None:
        """Take up an event of a session."""
        event, session = envelope.event, envelope.session
        if event.agent != ROOT:
            return
        turn = self._turns.setdefault(session, _OpenTurn())
        match event:
            case TurnStarted():
                self._turns[session] = _OpenTurn()
            case MessageAdded(role=Role.USER, text=text):
                turn.task = turn.task or text
            case PlanDecided():
                turn.plan = str(event.outcome)
            case ToolCallStarted(tool="shell", call_id=call_id, title=title):
                turn.running[call_id] = title
            case ToolCallFinished(call_id=call_id, ok=ok) if call_id in turn.running:
                command = turn.running.pop(call_id)
                turn.commands += [command] if ok and command not in turn.commands else []
            case TurnEnded(reason=TurnReason.DONE) if event.files_changed:
                line = json.dumps(_decision(envelope, event, turn), ensure_ascii=False)
                task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._write, line))
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)
            case _:
                pass

    async def close(self) -> None:
        """Write what is due."""
        _ = await asyncio.gather(*self._writing, return_exceptions=True)

    def _write(self, line: str) -> None:
        try:
            make_workspace_folder(self._workspace)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(workspace_dir(self._workspace) / NAME, flags, 0o600)
            with os.fdopen(handle, "ab", buffering=0) as file:
                file.write(f"{line}\n".encode("utf-8", "replace"))
        except (OSError, SessionFileError) as error:
            _log.warning("could not write %s: %s", NAME, error)


def _decision(envelope: Envelope, event: TurnEnded, turn: _OpenTurn) -> dict[str, object]:
    return {
        "time": envelope.time.isoformat(timespec="seconds"),
        "session": envelope.session,
        "task": _short(turn.task),
        "decision": _short(_first_sentence(event.text)),
        "files": [*event.files_changed[:_MOST_NAMED]],
        "commands": [_short(each) for each in turn.commands[:_MOST_NAMED]],
        **({"plan": turn.plan} if turn.plan else {}),
        "verified": event.verified,
    }


def _short(text: str) -> str:
    return sanitize_line(" ".join(text.split()))[:_MOST_CHARS]


def _first_sentence(text: str) -> str:
    first = text.strip().partition("\n\n")[0]
    return first.partition(". ")[0].rstrip(".") + "." if first else ""


def read_decisions(workspace: Path, limit: int) -> Iterator[dict[str, object]]:
    """Yield the last decisions, oldest first; lines that cannot be read are left out.  Blocks."""
    try:
        data = read_plain(workspace, f"{workspace_dir(workspace).name}/{NAME}", _MAX_BYTES) or b""
    except NotPlain:
        return
    for line in data.splitlines()[-max(1, limit) :]:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def decision_line(found: dict[str, object]) -> str:
    """Return a decision in one line."""
    files = found.get("files")
    names = ", ".join(map(str, files)) if isinstance(files, list) else ""
    words = (str(found.get("time", ""))[:10], str(found.get("task", "")), str(found.get("decision", "")), names)
    return sanitize_line(" · ".join(word for word in words if word))
