"""Whether the model may not know how its work stands, from its agent's events."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.events import Event, PlanChanged, ToolCallFinished, ToolCallStarted, TurnEnded, TurnReason
from lmtui.core.file_events import Rewound
from lmtui.core.model_events import Compacted, Reminder
from lmtui.engine.repair import UNFINISHED

_STOPS = (TurnReason.INTERRUPTED, TurnReason.ERROR, TurnReason.LIMIT)


@dataclass(slots=True)
class NoteWatch:
    """Whether the model is to be told, from its agent's events.

    `is_shaken`: what it did last may be lost to it; `is_lost`: it was stopped in a call, and does not know what came of it.
    """

    is_due: bool = False
    is_shaken: bool = False
    is_lost: bool = False
    _open: set[str] = field(default_factory=set)

    def apply(self, event: Event) -> None:
        """Take up an event of the agent; live and on replay alike."""
        match event:
            case ToolCallStarted(call_id=call_id, by=""):
                self._open.add(call_id)
            case ToolCallFinished(call_id=call_id):
                self._open.discard(call_id)
                self.is_lost = self.is_lost or event.summary == UNFINISHED
            case PlanChanged() if not self._open:
                self.is_due = True
            case Compacted() | Rewound():
                self.is_due = self.is_shaken = True
            case TurnEnded(reason=reason) if reason in _STOPS:
                self.is_due = self.is_shaken = True
                self._open.clear()
            case Reminder(topic="state"):
                self.is_due = self.is_shaken = self.is_lost = False
            case Reminder(topic="plan") if not self.is_shaken:  # it told of the steps itself
                self.is_due = False
            case _:
                pass
