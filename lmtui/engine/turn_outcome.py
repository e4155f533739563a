"""How a turn ended: told from the model's last words, or after a crash by the ends that its log lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.events import TurnReason
from lmtui.core.hosts import COMMAND_QUESTIONS
from lmtui.core.sanitize import sanitize_line

E = TypeVar("E", bound=events.Event)
EXIT_CODES = {
    TurnReason.DONE: 0,
    TurnReason.WAITING: 0,
    TurnReason.ERROR: 1,
    TurnReason.LIMIT: 2,
    TurnReason.UNFINISHED: 2,
    TurnReason.BLOCKED: 3,
    TurnReason.INTERRUPTED: 130,
}

_BLOCKED = re.compile(r"^[^\S\n]*+BLOCKED:", re.MULTILINE)
_COMPLETE = re.compile(r"^[ \t>*_`]*TASK_COMPLETE[.!*_`]*[ \t]*(?:\n|\Z)", re.MULTILINE)
_GOES_ON = re.compile(
    r"(?:please )?(?:go on|continue|carry on|keep going|proceed|resume|weiter|mach weiter)\b.{0,40}", re.IGNORECASE
)


def goes_on(text: str) -> bool:
    """Tell whether the user's words ask for what was begun before, and for nothing else."""
    return _GOES_ON.fullmatch(" ".join(text.split()).strip(" .!…\"'“”")) is not None


def without_token(text: str) -> str:
    """Return an answer without the lines that only say TASK_COMPLETE, unless that is all it says."""
    return _COMPLETE.sub("", text).strip() or text if "TASK_COMPLETE" in text else text


def reason_of(text: str) -> TurnReason:
    """Return done, or blocked where the answer has a line that begins with `BLOCKED:`."""
    return TurnReason.BLOCKED if _BLOCKED.search(text) else TurnReason.DONE


UNFINISHED = "unfinished"
_NOT_RUN = "Not run: lmtui stopped before it was approved."
CUT_OFF = "lmtui stopped in the middle of this turn"
_MAX_NAMED_CHARS = 80
_UNKNOWN = "lmtui stopped while this ran: its effect is unknown. Look before you run it again."


def ends_for_open_work(past: Sequence[events.Envelope]) -> list[events.Event]:
    """Return the missing ends in the order in which they would have come: approvals, then agents from the inside out, turn."""
    turns = _open(past, events.TurnStarted, events.TurnEnded, "turn_id")
    agents = _open(past, AgentStarted, AgentFinished, "agent")
    calls = _open(past, events.ToolCallStarted, events.ToolCallFinished, "call_id")
    asks = _open(past, events.ApprovalRequested, events.ApprovalResolved, "approval_id")
    waiting = {ask.call_id for ask in asks.values() if ask.tool not in COMMAND_QUESTIONS}  # these run already
    return [
        *(
            events.ApprovalResolved(agent=ask.agent, approval_id=ask.approval_id, outcome=events.Outcome.NO, by="interrupt")
            for ask in asks.values()
        ),
        *_ends_of_agents(agents, [_unfinished(call, is_waiting=call.call_id in waiting) for call in calls.values()]),
        *_own_model(past),
        *(_cut_short(turn, past) for turn in turns.values()),
    ]


def _open(past: Sequence[events.Envelope], begins: type[E], ends: type[events.Event], name: str) -> dict[str, E]:
    """Return by their ids what began and did not end."""
    found: dict[str, E] = {}
    for event in (envelope.event for envelope in past):
        if isinstance(event, begins):
            found[getattr(event, name)] = event
        elif isinstance(event, ends):
            found.pop(getattr(event, name), None)
    return found


def _own_model(past: Sequence[events.Envelope]) -> list[events.Event]:
    """Return the model to go back to where the log ends with one that was borrowed for a turn."""
    changes = [each.event for each in past if isinstance(each.event, events.ModelChanged) and each.event.agent == events.ROOT]
    mains = [event for event in changes if not event.role]
    if not mains or not mains[-1].is_for_turn:
        return []
    return [
        next((event for event in reversed(mains) if not event.is_for_turn), events.ModelChanged(model="", url=mains[-1].url))
    ]


def offered_again(past: Sequence[events.Envelope], ends: Sequence[events.Event], *, is_closing: bool = False) -> str:
    """Return what the user is told about the calls that a crash cut off, empty where there were none.

    With `is_closing` the session ends in order: what runs then is stopped, so that only what waits for an answer is told.
    """
    cut = {end.call_id: end for end in ends if isinstance(end, events.ToolCallFinished)}
    calls = [each.event for each in past if isinstance(each.event, events.ToolCallStarted) and each.event.call_id in cut]
    ran = [_named(call) for call in calls if cut[call.call_id].result == _UNKNOWN and not is_closing]
    waited = [_named(call) for call in calls if cut[call.call_id].result == _NOT_RUN]
    if not (ran or waited):
        return ""
    parts = [f"{', '.join(ran)} ran, and what came of it is unknown"] if ran else []
    parts += [f"{', '.join(waited)} waited for your answer and did not run"] if waited else []
    way_out = "Nothing runs again by itself: say “go on”, and the agent looks and takes it up."
    return f"When {'this session was closed' if is_closing else 'lmtui stopped'}, {'; '.join(parts)}. {way_out}"


def _named(call: events.ToolCallStarted) -> str:
    return sanitize_line(f"{call.tool} {call.title}".strip())[:_MAX_NAMED_CHARS]


def _ends_of_agents(agents: Mapping[str, AgentStarted], calls: Sequence[events.ToolCallFinished]) -> list[events.Event]:
    """Return the ends of calls, and behind those of an open sub-agent its own."""
    found: list[events.Event] = []
    for agent in reversed(list(agents)):
        found += [call for call in calls if call.agent == agent]
        found.append(AgentFinished(agent=agent, outcome=str(events.TurnReason.INTERRUPTED), summary="lmtui stopped meanwhile"))
    return [*found, *(call for call in calls if call.agent not in agents)]


def _unfinished(call: events.ToolCallStarted, *, is_waiting: bool) -> events.ToolCallFinished:
    text = _NOT_RUN if is_waiting else _UNKNOWN
    return events.ToolCallFinished(
        agent=call.agent, call_id=call.call_id, tool=call.tool, ok=False, result=text, elapsed_ms=0, summary=UNFINISHED
    )


def _cut_short(turn: events.TurnStarted, past: Sequence[events.Envelope]) -> events.TurnEnded:
    """Return the end of a turn; that it took until the last event is the least that is known."""
    began = next(each.time for each in reversed(past) if each.event is turn)
    reason = events.TurnReason.INTERRUPTED
    return events.TurnEnded(
        agent=turn.agent,
        turn_id=turn.turn_id,
        reason=reason,
        status=str(reason),
        exit_code=EXIT_CODES[reason],
        elapsed_s=round((past[-1].time - began).total_seconds(), 3),
        error=CUT_OFF,
    )
