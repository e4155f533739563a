"""May a turn end?  What it began and left open is named once to the model; then the turn ends as what it is: not finished.

Only what this turn is about counts: todos of a list that it touched, plan steps that it worked on, a task state that it
changed, files that its own calls wrote.  What an earlier task left open holds up no other question, and nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lmtui.core.claims import missing
from lmtui.core.events import Event, MessageAdded, PlanChanged, ToolCallFinished, TurnEnded, TurnReason, TurnStarted
from lmtui.core.file_events import CheckpointCreated, FilesChanged, FilesRestored, Rewound
from lmtui.core.messages import Role
from lmtui.core.permissions import Mode
from lmtui.core.plan import Plan, PlanStep, Todo
from lmtui.core.task_state import shown
from lmtui.core.work_words import open_words
from lmtui.core.workspace import FileChangeKind
from lmtui.engine.completion import goes_on, reason_of

if TYPE_CHECKING:
    from lmtui.engine.desk import Desk

_OWN = frozenset({"read", "write", "edit", "mkdir", "ls", "glob", "grep", "look", "get_time"})
_MOST_CLAIMS = 500


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


@dataclass(slots=True)
class GateWatch:
    """What an agent began, from its events.  `before` is the plan as the last turn left it, `births` the turn of each todo."""

    plan: Plan = field(default_factory=Plan)
    before: Plan = field(default_factory=Plan)
    births: dict[int, str] = field(default_factory=dict)
    claimed: dict[str, None] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    turn: str = ""
    is_going_on: bool = False
    changed: set[str] = field(default_factory=set)
    told: int | None = None
    _has_ended: bool = True
    _kept: set[str] = field(default_factory=set)

    def apply(self, event: Event) -> None:
        """Take up an event of the agent; live and on replay alike."""
        match event:
            case TurnStarted(turn_id=turn_id):
                self.before = self.before if self._has_ended else self.plan
                self.turn, self.told, self._has_ended = turn_id, None, False
                self.is_going_on = False
                self.claimed, self.changed, self.gone, self._kept = {}, set(), set(), set()
            case MessageAdded(role=Role.USER, text=text):
                self.is_going_on = self.is_going_on or goes_on(text)
            case PlanChanged(plan=plan):
                texts = {todo.id: todo.text for todo in self.plan.todos}
                self.births |= {todo.id: self.turn for todo in plan.todos if texts.get(todo.id) != todo.text}
                self.plan = plan
            case TurnEnded():
                self.before, self._has_ended = self.plan, True
            case _:
                self._take_files(event)

    def _take_files(self, event: Event) -> None:
        match event:
            case FilesChanged(changes=changes):
                self.changed |= {change.path for change in changes}
                gone = {change.path for change in changes if change.kind is FileChangeKind.DELETED}
                self.claimed |= {change.path: None for change in changes}
                for path in gone:
                    self.claimed.pop(path, None)
                self.gone |= gone
            case CheckpointCreated(call_id=call_id):
                self._kept.add(call_id)
            case ToolCallFinished(tool=tool, call_id=call_id) if tool not in _OWN and call_id not in self._kept:
                self.claimed = {}  # what it did to files is not known
            case FilesRestored():
                self.claimed = {}
            case Rewound():  # the plan went back before it; nothing of that is the next turn's work
                self.claimed, self.before = {}, self.plan
            case _:
                pass

    def open_todos(self) -> list[Todo]:
        """Return the open todos of each list that this turn touched."""
        before = {todo.id: todo for todo in self.before.todos}
        touched = {self.births.get(todo.id) for todo in self.plan.todos if before.get(todo.id) != todo}
        touched |= {self.births.get(each) for each in before.keys() - {todo.id for todo in self.plan.todos}}
        return [todo for todo in self.plan.open_todos if self.is_going_on or self.births.get(todo.id) in touched]

    def open_steps(self) -> list[PlanStep]:
        """Return the open steps of a plan that this turn worked on."""
        is_named = any(path in self.changed for step in self.plan.open_steps for path in step.files)
        is_at_work = self.is_going_on or self.plan.steps != self.before.steps or is_named
        return list(self.plan.open_steps) if is_at_work else []

    def claims(self) -> list[str]:
        """Return the files that this turn says it wrote: by its calls, its renames and the steps that it completed."""
        claimed = dict(self.claimed)
        if self.plan.task is not None and self.plan.task != self.before.task:
            known = self.before.task.rename_map if self.before.task else ()
            renamed = {old for old, _ in self.plan.task.rename_map}
            claimed |= {new: None for old, new in self.plan.task.rename_map if (old, new) not in known and new not in renamed}
        before = {step.id: step for step in self.before.steps}
        done = [step for step in self.plan.steps if not step.is_open and before.get(step.id) != step]
        claimed |= {path: None for step in done for path in step.files if not set("*?[") & set(path)}
        return [path for path in claimed if path not in self.gone][:_MOST_CLAIMS]

    def remaining(self) -> int:
        """Return how many things of the task state are left, 0 where this turn is not about it."""
        task = self.plan.task
        is_about = task is not None and (self.is_going_on or task != self.before.task)
        return task.remaining_count if task is not None and is_about and not task.is_finished else 0


async def open_work(watch: GateWatch, desk: Desk) -> OpenWork:
    """Return what a turn that would end now leaves open; files are looked for on the disk."""
    todos, steps, left = watch.open_todos(), watch.open_steps(), watch.remaining()
    gone = await missing(desk.sandbox, watch.claims())
    task = watch.plan.task
    parts = [open_words(steps, "plan step"), open_words(todos, "todo")]
    if left and task is not None:
        following = f", next is {task.remaining_queue[0]}" if task.remaining_queue else ""
        parts.append(f"{task.processed_count:,} of {task.processed_count + left:,} processed{following}")
    if gone:
        parts.append(f"written, but not on the disk: {shown(gone)}")
    return OpenWork(tuple(part for part in parts if part), len(todos) + len(steps) + left + len(gone))


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
