"""Plan mode at work: what the model is told, the plans that are in its answers, and the decisions of a person.

Only `SessionPlans` makes the events that end plan mode, and only a front end calls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lmtui.core.agent_events import PlanDecided, PlanOutcome, PlanProposed
from lmtui.core.errors import ToolError
from lmtui.core.events import Event, TurnReason
from lmtui.core.messages import Completion
from lmtui.core.plan_mode import TOPIC, Grants, approve, grants_of, proposal_lines, propose, reject, revise
from lmtui.core.proposals import FORM, MAX_STEPS, Proposal, find_proposal
from lmtui.engine.stop_policy import Continue, Done, Stop

if TYPE_CHECKING:
    from lmtui.engine.agent import Agent

CARRY_OUT = "Carry out the approved plan."
_MOST_NUDGES = 2
_SHOWN = "The plan was shown to the user. Stop here: they will approve it, change it, or say what should be different."
_LISTED = re.compile(r"^[^\S\n]*+(?:\d+[.)]|[-*•]|step \d+)", re.IGNORECASE | re.MULTILINE)
_AS_VALUE = "That was a plan in words. Give it as a value: call propose_plan, or answer with this object alone, as JSON: "
_WAITS = "the plan waits to be approved: `lmtui resume` shows it again, and --approve approves it unseen"
_BEGIN = """\
[The user approved the plan below. Plan mode is over: carry it out now, step by step. After each step check it \
as its `check` says, then call plan_complete_step with what the check gave. Do nothing that is not in the plan without need.

{plan}]"""
_REVISE = "[The user wants the plan changed, as they say. Plan mode stays on: change the plan and propose all of it again.]"
_REJECT = "[The user rejected the plan{why}. Nothing of it is to be done.]"
_OVER = "[Plan mode is over: the tools that change things may be used again.]"


def tell_plan_mode(agent: Agent) -> None:
    """Tell the model what it does not know yet of plan mode; it joins the conversation, nothing before it changes."""
    state = agent.state.planning
    told = [_about(state.decided, state.proposal)] if state.decided is not None else []
    is_approved = state.decided is not None and state.decided.outcome is PlanOutcome.APPROVED
    if state.is_on and not state.is_told:
        prompt = Path(__file__).with_name("prompts").joinpath("plan.md").read_text(encoding="utf-8").strip()
        told.append(prompt.replace("{form}", FORM).replace("{most}", str(MAX_STEPS)))
    elif state.is_told and not state.is_on and not is_approved:
        told.append(_OVER)
    if told:
        agent.remind("\n".join(told), TOPIC)


def _about(decided: PlanDecided, proposal: Proposal | None) -> str:
    match decided.outcome:
        case PlanOutcome.APPROVED if proposal is not None:
            return _BEGIN.replace("{plan}", "\n".join(proposal_lines(proposal)))
        case PlanOutcome.REVISED:
            return _REVISE
        case _:
            return _REJECT.replace("{why}", f": “{decided.feedback}”" if decided.feedback else "")


def propose_plan(agent: Agent, proposal: Proposal) -> str:
    """Put a plan of the model's before the user, and return what the model is told.

    Raises:
        ToolError: it is not plan mode, or it cannot be carried out.
    """
    if agent.state.depth:
        raise ToolError("a sub-agent proposes no plan: report what you found")
    for event in propose(agent.state.planning, proposal, turn_id=agent.turn.id):
        agent.emit(event)
    return _SHOWN


@dataclass(slots=True)
class PlanModePolicy:
    """Looks at the answers of one turn for a plan."""

    agent: Agent
    nudges: int = 0

    def judge(self, completion: Completion) -> Continue | Done | Stop | None:
        """Return what follows from an answer in plan mode whose calls were run, None where it is as in any other mode."""
        if not self.agent.state.planning.is_on or self.agent.state.depth:
            return None
        if (ending := self._ending()) or completion.message.tool_calls:
            return ending
        text = completion.message.text
        try:
            proposal = find_proposal(text)
            if proposal is not None:
                propose_plan(self.agent, proposal)
        except ToolError as error:
            return self._nudge(error.full_text()) or Done()
        if ending := self._ending():
            return ending
        return self._nudge(_AS_VALUE + FORM) if len(_LISTED.findall(text)) > 1 else None

    def _ending(self) -> Stop | None:
        """Return how the turn ends in which a plan was proposed."""
        asked = self.agent.state.planning.asked
        if asked is None or asked.turn_id != self.agent.turn.id:
            return None
        is_attended = self.agent.services.approvals.is_attended
        return Stop(TurnReason.WAITING, "") if is_attended else Stop(TurnReason.BLOCKED, _WAITS)

    def _nudge(self, text: str) -> Continue | None:
        self.nudges += 1
        return Continue(text) if self.nudges <= _MOST_NUDGES else None


class SessionPlans:
    """A person's hand on the plans of a session; implements `core.plan_mode.PlanApprovals`.

    Args:
        agent: returns the root agent.
        emit: takes events from outside a turn.
        submit: takes up the user's words.
    """

    def __init__(self, agent: Agent, emit: Callable[[Event], None], submit: Callable[[str], None]) -> None:
        self._agent = agent
        self._emit = emit
        self._submit = submit

    @property
    def open(self) -> PlanProposed | None:
        return self._agent.state.planning.asked

    def grants(self, proposal: Proposal) -> Grants:
        return grants_of(proposal, self._agent.all_rules())

    def approve(
        self, proposal_id: str, edited: Proposal | None = None, *, rules: tuple[str, ...] = (), by: str = "user"
    ) -> None:
        agent = self._agent
        if self._is_open(proposal_id) and agent.state.planning.asked is not None:
            chosen = edited or agent.state.planning.asked.proposal
            granted = tuple(rule for rule in self.grants(chosen).rules if rule in rules)
            self._take(approve(agent.state.planning, agent.state.plan, edited=edited, rules=granted, by=by))
            self._submit(CARRY_OUT)

    def revise(self, proposal_id: str, words: str) -> None:
        if self._is_open(proposal_id):
            self._take(revise(self._agent.state.planning, words))
            self._submit(words)

    def reject(self, proposal_id: str, words: str = "") -> None:
        if self._is_open(proposal_id):
            self._take(reject(self._agent.state.planning, words))

    def _is_open(self, proposal_id: str) -> bool:
        return self.open is not None and self.open.proposal_id == proposal_id

    def _take(self, events: list[Event]) -> None:
        for event in events:
            self._emit(event)
