"""What happens to agents beside the root agent, and which jobs wait; see `core.events` for what holds of all events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from lmtui.core.events import ROOT, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """A sub-agent begins; `agent` is its own id, `parent` the agent that sent it, `title` its task in a line."""

    kind: ClassVar[str] = "agent_started"
    parent: str = ROOT
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFinished(Event):
    """A sub-agent is done.  `outcome` is done, failed, interrupted or limit; `summary` is what it reports, in a line."""

    kind: ClassVar[str] = "agent_finished"
    outcome: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A task that waits for its time.  `schedule` says when in words, `next_time` (UTC) is None where it is paused."""

    id: str
    title: str
    schedule: str = ""
    next_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsChanged(Event):
    """The jobs of the workspace are others; `jobs` are all of them.  Shown, not stored: the scheduler keeps them."""

    kind: ClassVar[str] = "jobs_changed"
    durable: ClassVar[bool] = False
    jobs: tuple[Job, ...] = ()
