"""What a session changed, step by step, read from its events alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.events import ROOT, Envelope, PlanChanged, ToolCallStarted, TurnStarted
from lmtui.core.file_events import CheckpointCreated, FilesChanged, FilesRestored, Rewound, step_id
from lmtui.core.plan import Plan
from lmtui.core.sessions import Step


@dataclass(frozen=True, slots=True)
class Record:
    """A step with the checkpoints around it (empty where there are none) and what the first of them does not hold."""

    step: Step
    before: str
    after: str
    left_out: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Return the files that it changed."""
        return [change.path for change in self.step.changes]


@dataclass(slots=True)
class Ledger:
    """Every step of a session, oldest first; `undone` are the ids taken back and not redone, the last taken back last."""

    records: list[Record] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)

    def steps(self) -> list[Step]:
        """Return the steps, each with whether it is taken back."""
        return [replace(record.step, is_undone=record.step.id in self.undone) for record in self.records]

    def standing(self) -> list[Record]:
        """Return what is not taken back."""
        return [record for record in self.records if record.step.id not in self.undone]

    def redoable(self) -> list[Record]:
        """Return what may be done again, the next first: nothing once something else was changed."""
        latest = itertools.takewhile(lambda record: record.step.id in self.undone, reversed(self.records))
        return list(latest)[::-1]

    def of_turn_on(self, turn_id: str) -> list[Record]:
        """Return what stands of a turn and those after it."""
        if turn_id not in self.turns:
            return []
        later = set(self.turns[self.turns.index(turn_id) :])
        return [record for record in self.standing() if record.step.turn_id in later]


def plans_around(history: Sequence[Envelope], turn_id: str) -> tuple[Plan, Plan]:
    """Return plan, todos and task state as they stood when a turn began, and as they stand now."""
    before = now = Plan()
    for event in (envelope.event for envelope in history if envelope.event.agent == ROOT):
        if isinstance(event, PlanChanged):
            now = event.plan
        elif isinstance(event, TurnStarted) and event.turn_id == turn_id:
            before = now
    return before, now


def read_steps(history: Sequence[Envelope], foreign: int = 0) -> Ledger:
    """Return the ledger of a session's events.

    The first `foreign` of them came from a log that is not ours: they tell what was changed, but name no checkpoints, which
    are this user's and may hold anything.
    """
    ledger = Ledger()
    calls: dict[str, ToolCallStarted] = {}
    kept: dict[str, CheckpointCreated] = {}
    for envelope in (*map(_without_checkpoints, history[:foreign]), *history[foreign:]):
        match envelope.event:
            case TurnStarted(turn_id=turn_id):
                ledger.turns.append(turn_id)
            case ToolCallStarted() as event:
                calls[event.call_id] = event
            case CheckpointCreated() as event:
                kept[event.call_id] = event
            case FilesChanged() as event:
                ledger.records.append(_changed(envelope, event, calls.get(event.call_id), kept.get(event.call_id)))
            case FilesRestored() as event:
                _take_restored(ledger, envelope, event)
            case Rewound(turn_id=turn_id) if turn_id in ledger.turns:
                del ledger.turns[ledger.turns.index(turn_id) :]
            case _:
                pass
    return ledger


def _without_checkpoints(envelope: Envelope) -> Envelope:
    event = envelope.event
    if isinstance(event, FilesChanged | FilesRestored):
        return replace(envelope, event=replace(event, before="", after=""))
    return envelope


def _changed(envelope: Envelope, event: FilesChanged, call: ToolCallStarted | None, kept: CheckpointCreated | None) -> Record:
    step = Step(
        id=step_id(envelope.seq),
        turn_id=call.turn_id if call else "",
        tool=call.tool if call else "",
        title=call.title if call else "",
        time=envelope.time,
        changes=event.changes,
        can_undo=bool(event.before and event.after),
    )
    return Record(step, event.before, event.after, kept.left_out if kept else ())


def _take_restored(ledger: Ledger, envelope: Envelope, event: FilesRestored) -> None:
    if event.action in ("undo", "rewind"):
        known = {record.step.id for record in ledger.records}
        ledger.undone += [each for each in event.calls if each in known and each not in ledger.undone]
    elif event.action == "redo":
        ledger.undone = [each for each in ledger.undone if each not in event.calls]
    else:
        turn_id = ledger.turns[-1] if ledger.turns else ""
        title = ", ".join(event.files[:3])
        can_undo = bool(event.before and event.after)
        step = Step(step_id(envelope.seq), turn_id, "restore", title, envelope.time, event.changes, can_undo=can_undo)
        ledger.records.append(Record(step, event.before, event.after))
