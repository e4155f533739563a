"""What a fork begins with: the events of another session up to a place, without what belongs to that session alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime

from lmtui import __version__
from lmtui.core.events import (
    ApprovalResolved,
    Envelope,
    Event,
    InboxChanged,
    MessageAdded,
    ModeChanged,
    ModelChanged,
    Outcome,
    RuleRevoked,
    SessionOpened,
    SessionRenamed,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
)
from lmtui.core.file_events import FilesChanged, FilesRestored
from lmtui.core.wait_events import WaitSet
from lmtui.engine.repair import ends_for_open_work

TITLE_END = " (fork)"
_CUT = "the fork begins here"


def forked(past: Sequence[Envelope], new_id: str, now: datetime, seq: int, firsts: Sequence[Event] = ()) -> list[Envelope]:
    """Return the events of a fork that is made now.

    Args:
        past: the events of the original.
        new_id: the id of the fork.
        now: the time, UTC.
        seq: the last event that it keeps; what a message asked for and had been answered comes along.  0 is all of it.
        firsts: model and mode where the original is not this user's: its own do not hold then, nor does anything it granted.
    """
    is_ours = not firsts
    kept = past[: _end(past, seq)]
    waits = {each.event.turn_id for each in kept if isinstance(each.event, WaitSet)}
    last = kept[-1].seq if kept else 0
    opened = kept[0].event if kept and isinstance(kept[0].event, SessionOpened) else SessionOpened(workspace="", version="")
    begun = replace(opened, parent=past[0].session, parent_seq=last, version=__version__)
    found = [Envelope(1, kept[0].time if kept else now, new_id, begun)]
    for envelope in kept[1:]:
        event = _inherited(envelope.event, waits, is_ours=is_ours)
        if event is not None:
            found.append(replace(envelope, session=new_id, event=event))
    titles = [envelope.event.title for envelope in found if isinstance(envelope.event, SessionRenamed)]
    ends = [replace(end, error=_CUT) if isinstance(end, TurnEnded) else end for end in ends_for_open_work(found)]
    added = [*ends, *firsts, SessionRenamed(title=(titles[-1] if titles else "").removesuffix(TITLE_END) + TITLE_END)]
    return [*found, *(Envelope(last + number, now, new_id, event) for number, event in enumerate(added, 1))]


def _end(past: Sequence[Envelope], seq: int) -> int:
    """Return behind which event the copy ends: that with this place, and the ends of the calls that it made."""
    if seq <= 0:
        return len(past)
    at = next((index for index, envelope in enumerate(past) if envelope.seq > seq), len(past))
    open_calls: set[str] = set()
    for envelope in past[:at]:
        match envelope.event:
            case MessageAdded(tool_calls=calls):
                open_calls = {call.id for call in calls}
            case ToolCallStarted(call_id=call_id):
                open_calls.add(call_id)
            case ToolCallFinished(call_id=call_id):
                open_calls.discard(call_id)
            case TurnEnded():
                open_calls.clear()
            case _:
                pass
    while open_calls and at < len(past) and not isinstance(past[at].event, MessageAdded | TurnEnded):
        event = past[at].event
        at += 1
        if isinstance(event, ToolCallFinished):
            open_calls.discard(event.call_id)
    return at


def _inherited(event: Event, waits: Collection[str], *, is_ours: bool) -> Event | None:
    """Return an event as the fork has it, None where it says nothing of the fork.

    Grants for a session end with it; checkpoints are the original's; what was queued, and what was waited for (in the turns
    `waits`), is the original's to do.
    """
    match event:
        case InboxChanged() | WaitSet():
            return None
        case TurnEnded(reason=TurnReason.WAITING, turn_id=turn_id) if turn_id in waits:
            return replace(event, reason=TurnReason.DONE, status=str(TurnReason.DONE))
        case ModelChanged() | ModeChanged() | RuleRevoked() if not is_ours:
            return None
        case ApprovalResolved(outcome=outcome) if outcome is Outcome.SESSION or not is_ours:
            return replace(event, rule="")
        case FilesChanged() | FilesRestored():
            return replace(event, before="", after="")
        case _:
            return event
