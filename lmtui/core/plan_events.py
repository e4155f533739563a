"""A plan is proposed, and somebody decides about it; see `core.events` for what holds of all events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from lmtui.core.events import Event
from lmtui.core.proposals import Proposal


class PlanOutcome(StrEnum):
    """What became of a proposal; `replaced`: the model made another before anybody decided."""

    APPROVED = "approved"
    REVISED = "revised"
    REJECTED = "rejected"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProposed(Event):
    """The model proposes a plan; it stays open, also over a restart, until a `PlanDecided` with its id."""

    kind: ClassVar[str] = "plan_proposed"
    proposal_id: str
    proposal: Proposal
    turn_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDecided(Event):
    """Somebody decided about a proposal.  `by` is user, flag (`--approve`) or model (it made another).

    `feedback` goes to the model; `edited` is the plan as the user changed it; `rules` are what was granted for this session
    with it.
    """

    kind: ClassVar[str] = "plan_decided"
    proposal_id: str
    outcome: PlanOutcome
    by: str = "user"
    feedback: str = ""
    edited: Proposal | None = None
    rules: tuple[str, ...] = ()
