"""What happens to agents next to the root agent; see `core.events` for what holds of all events."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from lmtui.core.errors import UsageError
from lmtui.core.events import ROOT, Event
from lmtui.core.messages import Usage
from lmtui.core.proposals import Proposal
from lmtui.core.sanitize import sanitize_line
from lmtui.core.times import LocalZone, read_moment
from lmtui.core.workspace import BackgroundCommand


class PlanOutcome(StrEnum):
    """What became of a proposal; `replaced`: the model made another before anybody decided."""

    APPROVED = "approved"
    REVISED = "revised"
    REJECTED = "rejected"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposed(Event):
    """The model proposes a plan; it stays open, also over a restart, until a `PlanDecided` with its id."""

    proposal_id: str
    proposal: Proposal
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDecided(Event):
    """Somebody decided about a proposal.  `by` is user, flag (`--approve`) or model (it made another).

    `feedback` goes to the model; `edited` is the plan as the user changed it; `rules` are what was granted for this session
    with it.
    """

    proposal_id: str
    outcome: PlanOutcome
    by: str = "user"
    feedback: str = ""
    edited: Proposal | None = None
    rules: tuple[str, ...] = ()


LONGEST = timedelta(days=366)
SHORTEST = timedelta(seconds=1)
FORM = "WAIT: 2026-05-01T09:00: what you wait for"
_MAX_WHY_CHARS = 500
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_LINE = re.compile(r"WAIT:[ \t]*(\S.*)\Z")
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?|in \d{1,6} ?[smhd])"
    r"(?:[ \t]*[:,\-–][ \t]*(.*))?\Z"
)
_TIME_LIKE = re.compile(r"\d:\d\d|\d{4}-\d\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSet(Event):
    """The session waits until a time (UTC) and continues by itself then; any turn that starts before ends the wait."""

    until: datetime
    why: str = ""
    turn_id: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Until when (UTC) a session waits, and for what."""

    until: datetime
    why: str = ""


def read_wait(text: str, now: datetime) -> Wait | None:
    """Return what an answer says with a line `WAIT: TIME: REASON`, outside of code; None where it says nothing of the kind.

    Raises:
        UsageError: there is such a line and its time cannot be; the text is fit for the model.
    """
    line = next((found[1] for found in map(_LINE.match, _prose(text)) if found is not None), None)
    if line is None:
        return None
    found = _TIME.match(line.strip())
    if found is None and not _TIME_LIKE.search(line):
        return None  # a word as people use it
    if found is None:
        raise UsageError("the WAIT line cannot be read", f"Write it as {FORM}")
    return checked_wait(read_moment(found[1], now, LocalZone()), found[2] or "", now)


def checked_wait(until: datetime, why: str, now: datetime) -> Wait:
    """Return a wait that can be, of a second at least.

    Raises:
        UsageError: its time is over, or it is longer than a year; the text says what time it is now.
    """
    if until <= now:
        over, here = (each.astimezone(LocalZone()).isoformat(timespec="seconds") for each in (until, now))
        raise UsageError(f"{over} is over: it is {here} now", "Name a time to come, or go on now.")
    if until - now > LONGEST:
        raise UsageError("a wait is a year at most", "Wait until an earlier time, and then again.")
    return Wait(max(until, now + SHORTEST), sanitize_line(why).strip()[:_MAX_WHY_CHARS])


def _prose(text: str) -> list[str]:
    """Return the lines that are not code: not fenced, not indented by four or more, not quoted."""
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found is not None and (not fence or (found[1][0] == fence[0] and len(found[1]) >= len(fence))):
            fence = "" if fence else found[1]
        elif not fence and not line.startswith(("    ", "\t", ">")):
            lines.append(line.strip())
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStarted(Event):
    """A sub-agent begins; `agent` is its own id, `parent` the agent that sent it, `title` its task in a line.

    `work` is what it may do: `work` as its parent, `explore` only reads.  All it does belongs to the turn of its parent.
    """

    parent: str = ROOT
    title: str = ""
    work: str = "work"
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFinished(Event):
    """A sub-agent is done.  `outcome` is done, partial, blocked, failed, interrupted or limit; `summary` is what it reports.

    `steps` are its requests, `usage` what they cost together, `elapsed_s` is wall time.
    """

    outcome: str
    summary: str = ""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundChanged(Event):
    """A background command started or ended; `commands` are all of the session.  Shown, not stored: they end with it."""

    durable: ClassVar[bool] = False
    commands: tuple[BackgroundCommand, ...] = ()
