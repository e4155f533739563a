"""How the full-screen app was asked to start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmtui.core.sessions import AgentRow, SessionHost

KEYS_FILE = "keys.toml"
ReadAgents = Callable[[], Awaitable[Sequence["AgentRow"]]]


@dataclass(frozen=True, slots=True)
class Attachable:
    """A host for the app: what connects to it, finds the session to show, and reads all of its sessions."""

    connect: Callable[[], SessionHost]
    find_session: Callable[[], str]
    read_agents: ReadAgents


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What the command line decided.

    `session_id` resumes a session (empty: a new one), `task` is sent first, `theme` is a theme's name (empty: the default),
    `mode` and `workspace` are shown until the session itself says them, `is_demo` starts the built-in scripted server first,
    `keys` binds commands by their id to other keys (`session.new` to `ctrl+n`), `problems`
    are what was wrong with the user's own files, to be said once the app is, `notify` is the setting of that name,
    `images` are picture files to begin the prompt with (a task is next to them then, and is not sent by itself),
    `is_attached`: the sessions are those of a host, and go on without the app, `agents` reads the sessions of the host,
    `find_session` finds the one to show where none is named (it blocks).
    """

    session_id: str = ""
    task: str = ""
    theme: str = ""
    mode: str = "normal"
    workspace: str = ""
    is_demo: bool = False
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notify: str = "auto"
    images: tuple[str, ...] = ()
    is_attached: bool = False
    agents: ReadAgents | None = None
    find_session: Callable[[], str] | None = None
