"""What an agent began in its turn, from its events: todos, plan steps, task state and files, for the gate at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.events import Event, MessageAdded, PlanChanged, ToolCallFinished, TurnEnded, TurnStarted
from lmtui.core.file_events import CheckpointCreated, FilesChanged, FilesRestored, Rewound
from lmtui.core.messages import Role
from lmtui.core.plan import Plan, PlanStep, Todo
from lmtui.core.tool_facts import facts_of
from lmtui.core.workspace import FileChangeKind
from lmtui.engine.completion import goes_on
from lmtui.engine.syntax import MOST_FILES

_MOST_CLAIMS = 500


@dataclass(slots=True)
class GateWatch:
    """What an agent began, from its events.  `before` is the plan as the last turn left it, `births` the turn of each todo.

    `written` are the files that the turn changed a few at a time.
    """

    plan: Plan = field(default_factory=Plan)
    before: Plan = field(default_factory=Plan)
    births: dict[int, str] = field(default_factory=dict)
    claimed: dict[str, None] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    written: dict[str, None] = field(default_factory=dict)
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
                self.written = {}
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
                if len(changes) <= MOST_FILES:
                    self.written |= {change.path: None for change in changes}
                for path in gone:
                    self.claimed.pop(path, None)
                    self.written.pop(path, None)
                self.gone |= gone
            case CheckpointCreated(call_id=call_id):
                self._kept.add(call_id)
            case ToolCallFinished(tool=tool, call_id=call_id) if facts_of(tool).may_change_unseen and call_id not in self._kept:
                self.claimed = {}  # what it did to files is not known
            case FilesRestored():
                self.claimed, self.written = {}, {}
            case Rewound():  # the plan went back before it; nothing of that is the next turn's work
                self.claimed, self.written, self.before = {}, {}, self.plan
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
