"""How the work stands, told to the model when it may not know: after another hand changed it, a compaction, a stop.

The note is added at the end, never put in between: what was sent stays as it was.
"""

from __future__ import annotations

from lmtui.core.model_events import Reminder
from lmtui.core.plan import Plan
from lmtui.core.work_words import work_lines
from lmtui.engine.desk import Desk

TOPIC = "state"
MAX_CHARS = 1_400
_HEAD = "[How your work stands, as lmtui keeps it:"
_LOOK = "Some of what was done may not be counted yet: look at the disk before you go on, and do not repeat what is there."


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
