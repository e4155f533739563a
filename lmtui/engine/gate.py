"""May a turn end?  Work that it left open is reported once to the model; after that the turn ends as not finished.

Only what this turn is about counts: todos of a list that it touched, plan steps that it worked on, a task state that it
changed, files that its own calls wrote (are they there, do they parse).  What an earlier task left open holds up no other
question, and nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

from lmtui.core.claims import missing
from lmtui.core.clean import clean_line
from lmtui.core.events import TurnReason
from lmtui.core.permissions import Mode
from lmtui.core.task_state import shown
from lmtui.core.work_words import open_words
from lmtui.engine.completion import reason_of
from lmtui.engine.desk import Desk
from lmtui.engine.gate_watch import GateWatch
from lmtui.engine.syntax import unparsed

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class OpenWork:
    """What a turn leaves open, in words for a reader, and how much it is."""

    parts: tuple[str, ...] = ()
    amount: int = 0

    @property
    def nudge(self) -> str:
        """Return what the model is told."""
        return (
            f"Not finished yet: {'; '.join(self.parts)}. Go on with it, and mark what is done. "
            "If it cannot be done, say why in a line that begins with BLOCKED:"
        )

    @property
    def error(self) -> str:
        """Return what the user is told where it stays so."""
        return f"not finished: {'; '.join(self.parts)}"


async def open_work(watch: GateWatch, desk: Desk) -> OpenWork:
    """Return what a turn that would end now leaves open; files are looked for on the disk."""
    todos, steps, left = watch.open_todos(), watch.open_steps(), watch.remaining()
    gone = await missing(desk.sandbox, watch.claims())
    broken = await unparsed(desk.sandbox, watch.written)
    task = watch.plan.task
    parts = [open_words(steps, "plan step"), open_words(todos, "todo")]
    if left and task is not None:
        following = f", next is {task.remaining_queue[0]}" if task.remaining_queue else ""
        parts.append(f"{task.processed_count:,} of {task.processed_count + left:,} processed{following}")
    if gone:
        parts.append(f"written, but not on the disk: {shown(list(map(clean_line, gone)))}")
    parts += [f"{clean_line(path)} does not parse ({why})" for path, why in list(broken.items())[:_MOST_NAMED]]
    return OpenWork(tuple(part for part in parts if part), len(todos) + len(steps) + left + len(gone) + len(broken))


async def check_end(desk: Desk, text: str) -> tuple[str, str]:
    """Return what the model is told before its turn may end, else what the user is told of what stays open; both may be empty.

    The model is told once; again only where it did some of it meanwhile.
    """
    is_question = desk.approvals.is_attended and text.rstrip().endswith("?")
    is_refused = desk.approvals.has_refused(desk.agent)
    if is_question or is_refused or desk.mode is Mode.PLAN or reason_of(text) is not TurnReason.DONE:
        return "", ""
    work = await open_work(desk.gate, desk)
    if not work.parts:
        return "", ""
    if desk.gate.told is None or work.amount < desk.gate.told:
        desk.gate.told = work.amount
        return work.nudge, ""
    return "", work.error
