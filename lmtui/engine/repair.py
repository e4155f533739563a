"""What a log lacks after a crash: the ends of what had begun.  They are appended on resume, so that every start has one end."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Envelope,
    Event,
    Outcome,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.hosts import NETWORK_TOOL
from lmtui.engine.completion import EXIT_CODES

_NOT_RUN = "Not run: lmtui stopped before it was approved."
_UNKNOWN = "lmtui stopped while this ran: its effect is unknown. Look before you run it again."


def ends_for_open_work(past: Sequence[Envelope]) -> list[Event]:
    """Return the missing ends in the order in which they would have come: approvals, calls, turn."""
    turns: dict[str, TurnStarted] = {}
    calls: dict[str, ToolCallStarted] = {}
    asks: dict[str, ApprovalRequested] = {}
    for envelope in past:
        match envelope.event:
            case TurnStarted() as event:
                turns[event.turn_id] = event
            case TurnEnded() as event:
                turns.pop(event.turn_id, None)
            case ToolCallStarted() as event:
                calls[event.call_id] = event
            case ToolCallFinished() as event:
                calls.pop(event.call_id, None)
            case ApprovalRequested() as event:
                asks[event.approval_id] = event
            case ApprovalResolved() as event:
                asks.pop(event.approval_id, None)
            case _:
                pass
    waiting = {ask.call_id for ask in asks.values() if ask.tool != NETWORK_TOOL}  # who asks about a host runs already
    return [
        *(
            ApprovalResolved(agent=ask.agent, approval_id=ask.approval_id, outcome=Outcome.NO, by="interrupt")
            for ask in asks.values()
        ),
        *(_unfinished(call, _NOT_RUN if call.call_id in waiting else _UNKNOWN) for call in calls.values()),
        *(_cut_short(turn) for turn in turns.values()),
    ]


def _unfinished(call: ToolCallStarted, text: str) -> ToolCallFinished:
    return ToolCallFinished(
        agent=call.agent, call_id=call.call_id, tool=call.tool, ok=False, result=text, elapsed_ms=0, summary="unfinished"
    )


def _cut_short(turn: TurnStarted) -> TurnEnded:
    reason = TurnReason.INTERRUPTED
    return TurnEnded(
        agent=turn.agent,
        turn_id=turn.turn_id,
        reason=reason,
        status=str(reason),
        exit_code=EXIT_CODES[reason],
        error="lmtui stopped in the middle of this turn",
    )
