"""Plan mode as a value: which plan is open, where the mode goes back to, what the model has not been told yet.

Pure.  Events change it (`after`), live and on replay alike; the functions below make the events of a transition.  Nothing that
a model does makes an event that ends the mode: `propose` is all it can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lmtui.core.errors import ToolError
from lmtui.core.events import Event, ModeChanged, PlanChanged, TurnStarted
from lmtui.core.file_events import Rewound
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.plan import Plan
from lmtui.core.plan_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.plan_steps import adopt_steps
from lmtui.core.proposals import Proposal, check_proposal
from lmtui.core.rules import Mode

TOPIC = "plan"


@dataclass(frozen=True, slots=True)
class PlanMode:
    """Where planning stands.

    `before` is the mode to go back to, `asked` the proposal that waits for an answer, `count` how many there were.  `is_told`:
    the model knows that plan mode is on.  `decided` is an answer with its proposal that the model has not heard of, `later`
    are the turns since the proposal.
    """

    mode: Mode = Mode.NORMAL
    before: Mode = Mode.NORMAL
    asked: PlanProposed | None = None
    count: int = 0
    is_told: bool = False
    decided: PlanDecided | None = None
    proposal: Proposal | None = None
    later: tuple[str, ...] = ()

    @classmethod
    def starting(cls, mode: Mode) -> PlanMode:
        """Return the state of a session that begins in a mode."""
        return cls(mode, Mode.NORMAL if mode is Mode.PLAN else mode)

    def begun_anew(self, mode: Mode) -> PlanMode:
        """Return the state of a session whose log is somebody else's: its plan may be looked at, its modes do not hold."""
        return replace(PlanMode.starting(mode), asked=self.asked, proposal=self.proposal, count=self.count)

    @property
    def is_on(self) -> bool:
        """Tell whether plan mode holds."""
        return self.mode is Mode.PLAN


def after(state: PlanMode, event: Event) -> PlanMode:
    """Return the state once an event has happened."""
    match event:
        case ModeChanged(mode=mode) if mode in tuple(Mode):
            return replace(state, mode=Mode(mode), before=state.before if mode == Mode.PLAN else Mode(mode))
        case PlanProposed():
            return replace(state, asked=event, count=state.count + 1, decided=None, proposal=event.proposal, later=())
        case PlanDecided() if state.asked is not None and event.proposal_id == state.asked.proposal_id:
            told = None if event.outcome is PlanOutcome.REPLACED else event
            return replace(state, asked=None, decided=told, proposal=event.edited or state.proposal)
        case TurnStarted(turn_id=turn_id) if state.asked is not None:
            return replace(state, later=(*state.later, turn_id))
        case Rewound(turn_id=turn_id):
            asked = state.asked if turn_id in state.later else None
            return replace(state, asked=asked, is_told=False, decided=None)
        case Reminder(topic="plan"):
            return replace(state, is_told=state.is_on, decided=None)
        case Compacted(kept_from=kept_from) if kept_from:
            return replace(state, is_told=False)
        case _:
            return state


def propose(state: PlanMode, proposal: Proposal, *, turn_id: str) -> list[Event]:
    """Return the events of a proposal by the model; one that is open already is replaced.

    Raises:
        ToolError: it is not plan mode, or the plan cannot be carried out.
    """
    if not state.is_on:
        raise ToolError("plan mode is off, so no plan is asked for: do the task")
    check_proposal(proposal)
    events: list[Event] = []
    if state.asked is not None:
        events.append(PlanDecided(proposal_id=state.asked.proposal_id, outcome=PlanOutcome.REPLACED, by="model"))
    return [*events, PlanProposed(proposal_id=f"plan_{state.count + 1}", proposal=proposal, turn_id=turn_id)]


def approve(
    state: PlanMode, plan: Plan, *, edited: Proposal | None = None, rules: tuple[str, ...] = (), by: str = "user"
) -> list[Event]:
    """Return the events of a yes; the decision is the last, so that a crash before it leaves the question open.

    Raises:
        ToolError: no plan is open, or the edited one cannot be carried out.
    """
    asked = _open(state)
    chosen = check_proposal(edited or asked.proposal)
    events: list[Event] = [PlanChanged(plan=adopt_steps(plan, chosen.steps))]
    if state.is_on:
        events.append(ModeChanged(mode=str(state.before)))
    is_edited = edited is not None and edited != asked.proposal
    changed = edited if is_edited else None
    events.append(PlanDecided(proposal_id=asked.proposal_id, outcome=PlanOutcome.APPROVED, by=by, edited=changed, rules=rules))
    return events


def revise(state: PlanMode, words: str) -> list[Event]:
    """Return the events of “change it”; plan mode goes on, or holds again.

    Raises:
        ToolError: no plan is open, or nothing is said about it.
    """
    asked = _open(state)
    if not words.strip():
        raise ToolError("say what should be different")
    decided = PlanDecided(proposal_id=asked.proposal_id, outcome=PlanOutcome.REVISED, feedback=words.strip())
    return [decided] if state.is_on else [decided, ModeChanged(mode=str(Mode.PLAN))]


def reject(state: PlanMode, words: str = "") -> list[Event]:
    """Return the events of a no; the mode stays as it is.

    Raises:
        ToolError: no plan is open.
    """
    asked = _open(state)
    return [PlanDecided(proposal_id=asked.proposal_id, outcome=PlanOutcome.REJECTED, feedback=words.strip())]


def _open(state: PlanMode) -> PlanProposed:
    if state.asked is None:
        raise ToolError("no plan waits for an answer")
    return state.asked
