"""Rules beyond a session: what is granted with "always" is kept, what is revoked goes from the file and from every session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from lmtui.core.errors import ConfigError
from lmtui.core.events import ApprovalResolved, Envelope, Level, Notice, Outcome, RuleRevoked
from lmtui.core.permissions import Effect, GrantScope
from lmtui.engine.session import EngineSession
from lmtui.store.rules import add_rule, remove_rule


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
        try:
            match envelope.event:
                case ApprovalResolved(outcome=Outcome.ALWAYS) as event if event.rule:
                    scope = GrantScope(event.scope) if event.scope in tuple(GrantScope) else GrantScope.WORKSPACE
                    add_rule(self._workspace, event.rule, scope)
                case RuleRevoked() as event:
                    self._revoke(session, event)
                case _:
                    pass
        except ConfigError as error:
            notice = Notice(level=Level.WARNING, text=error.full_text())
            asyncio.get_running_loop().call_soon(session.emit, notice)

    def _revoke(self, session: EngineSession, event: RuleRevoked) -> None:
        """Take a rule out of the file, and out of the other sessions where it was in the file."""
        effect = Effect(event.effect)
        scopes = (GrantScope.WORKSPACE, GrantScope.USER)
        removed = [remove_rule(self._workspace, event.rule, scope, effect) for scope in scopes]
        if not any(removed):
            return
        for other in self._sessions():
            for rule in other.rules:
                is_same = str(rule) == event.rule and rule.effect is effect and rule.source.startswith("always")
                if other is not session and is_same:
                    asyncio.get_running_loop().call_soon(other.revoke, rule)
