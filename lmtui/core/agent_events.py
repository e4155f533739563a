"""What happens to agents beside the root agent, and which jobs wait; see `core.events` for what holds of all events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from lmtui.core.background import BackgroundCommand
from lmtui.core.events import ROOT, Event
from lmtui.core.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """A sub-agent begins; `agent` is its own id, `parent` the agent that sent it, `title` its task in a line.

    `work` is what it may do: `work` as its parent, `explore` only reads.  All it does belongs to the turn of its parent.
    """

    kind: ClassVar[str] = "agent_started"
    parent: str = ROOT
    title: str = ""
    work: str = "work"
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFinished(Event):
    """A sub-agent is done.  `outcome` is done, partial, blocked, failed, interrupted or limit; `summary` is what it reports.

    `steps` are its requests, `usage` what they cost together, `elapsed_s` is wall time.
    """

    kind: ClassVar[str] = "agent_finished"
    outcome: str
    summary: str = ""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """A task that waits for its time.  `schedule` says when in words, `next_time` (UTC) is None where it is paused."""

    id: str
    title: str
    schedule: str = ""
    next_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundChanged(Event):
    """A background command started or ended; `commands` are all of the session.  Shown, not stored: they end with it."""

    kind: ClassVar[str] = "background_changed"
    durable: ClassVar[bool] = False
    commands: tuple[BackgroundCommand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsChanged(Event):
    """The jobs of the workspace are others; `jobs` are all of them.  Shown, not stored: the scheduler keeps them."""

    kind: ClassVar[str] = "jobs_changed"
    durable: ClassVar[bool] = False
    jobs: tuple[Job, ...] = ()
