"""How the work stands, told to the model when it may not know: after another hand changed it, a compaction, a stop.

The note is added at the end, never put in between: what was sent stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lmtui.core.events import Event, PlanChanged, ToolCallFinished, ToolCallStarted, TurnEnded, TurnReason
from lmtui.core.file_events import Rewound
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.plan import Plan
from lmtui.core.work_words import work_lines
from lmtui.engine.repair import UNFINISHED

if TYPE_CHECKING:
    from lmtui.engine.desk import Desk

TOPIC = "state"
MAX_CHARS = 1_400
_HEAD = "[How your work stands, as lmtui keeps it:"
_LOOK = "Some of what was done may not be counted yet: look at the disk before you go on, and do not repeat what is there."
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


def tell_state(desk: Desk, turn_id: str) -> None:
    """Tell the model how its work stands, if it may not know and something is open."""
    if not desk.note.is_due:
        return
    text = note_text(desk.plan, is_shaken=desk.note.is_shaken, is_lost=desk.note.is_lost)
    if text:
        desk.emit(Reminder(agent=desk.agent, text=text, turn_id=turn_id, topic=TOPIC))
    desk.note.is_due = desk.note.is_shaken = desk.note.is_lost = False


def note_text(plan: Plan, *, is_shaken: bool, is_lost: bool = False) -> str:
    """Return the note, empty where nothing is open, unless what was done last is not known."""
    task = plan.task
    is_counting = task is not None and not task.is_finished
    if not (is_lost or plan.open_todos or plan.open_steps or is_counting) or plan == Plan():
        return ""
    lines: list[str] = []
    room = MAX_CHARS
    for line in work_lines(plan):
        room -= len(line) + 1
        if room < 0:
            lines.append("(and more)")
            break
        lines.append(line)
    look = [_LOOK] if is_shaken and task is not None else []
    return "\n".join((_HEAD, *lines, *look)) + "]"
