"""What can be told without opening a session: lists, logs and the servers there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmtui.app.model_servers import Servers
from lmtui.config import Config
from lmtui.core.events import Envelope
from lmtui.core.hosts import is_same_server, root_url
from lmtui.core.permissions.rules import Effect
from lmtui.core.servers import ServerFound
from lmtui.core.sessions import Session, SessionSummary
from lmtui.engine.entries import bare
from lmtui.store.rule_store import read_rules, rules_file
from lmtui.store.session_logs import SessionStore, load
from lmtui.store.summaries import last_used, summaries

__all__ = ["rules_file"]  # what else front ends need, who see no store


def list_sessions(workspace: Path, search: str = "", limit: int = 20) -> list[SessionSummary]:
    """Return a workspace's sessions, newest first."""
    return summaries(SessionStore(workspace), search, limit)


def last_session(workspace: Path) -> str:
    """Return the id of the session that was used last in a workspace, empty where there is none."""
    return last_used(SessionStore(workspace))


def session_log(workspace: Path, session_id: str) -> Path:
    """Return the log of a session, given by its id or a unique end of it.

    Raises:
        SessionFileError: none or several match.
    """
    return SessionStore(workspace).path(session_id)


def session_events(workspace: Path, session_id: str) -> Sequence[Envelope]:
    """Return a session's durable events.

    Raises:
        SessionFileError: no such session, or its log cannot be read.
    """
    return load(session_log(workspace, session_id)).events


def granted_rules(workspace: Path) -> Sequence[str]:
    """Return the rules that were granted for always in a workspace.

    Raises:
        ConfigError: their file cannot be read.
    """
    return [rule.text for rule in read_rules(workspace) if rule.effect is Effect.ALLOW]


async def find_models(config: Config) -> Sequence[ServerFound]:
    """Return the model servers that answer, with what they serve."""
    return await Servers(config).find_answering()


def silent_address(config: Config, servers: Sequence[ServerFound]) -> str:
    """Return the address that the settings name, if no server was found there; else an empty string."""
    if not config.url:
        return ""
    return "" if any(is_same_server(server.url, config.url) for server in servers) else root_url(config.url)


def bare_history(session: Session) -> Sequence[Envelope]:
    """Return a session's durable events, old ones without what is long in them (results, arguments): cheap to look through."""
    return bare(session.history())
