"""Rules beyond a session: what is granted with "always" is kept, what is revoked goes from the file and from every session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.core.events import ApprovalResolved, Envelope, Level, Notice, Outcome
from lmtui.engine.session import EngineSession
from lmtui.store.rules import add_rule


class Grants:
    """Listens to the sessions of one workspace.

    Args:
        sessions: returns those that are open.
    """

    def __init__(self, workspace: Path, sessions: Callable[[], Iterable[EngineSession]]) -> None:
        self._workspace = workspace
        self._sessions = sessions

    def follow(self, session: EngineSession) -> None:
        """Keep what is granted in a session for always."""
        session.subscribe(lambda envelope: self._take(session, envelope))

    def _take(self, session: EngineSession, envelope: Envelope) -> None:
        event = envelope.event
        if not isinstance(event, ApprovalResolved) or event.outcome is not Outcome.ALWAYS or not event.rule:
            return
        try:
            add_rule(self._workspace, event.rule)
        except ConfigError as error:
            notice = Notice(level=Level.WARNING, text=error.full_text())
            asyncio.get_running_loop().call_soon(session.emit, notice)
