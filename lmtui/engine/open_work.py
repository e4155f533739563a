"""What an agent began in its turn, from its events: todos, plan steps, task state and files, for the gate at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from lmtui.core.agent_events import Wait, WaitSet, checked_wait, read_wait
from lmtui.core.errors import UsageError
from lmtui.core.events import (
    CheckpointCreated,
    Event,
    FilesChanged,
    FilesRestored,
    MessageAdded,
    PlanChanged,
    Rewound,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
    TurnStarted,
)
from lmtui.core.messages import Completion, Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.rules import facts_of
from lmtui.core.plan import REFUSED, WELL, CommandRun, Plan, PlanStep, StepWork, Todo, current_step, is_run_of, programs_of
from lmtui.core.times import as_utc
from lmtui.core.workspace import FileChangeKind
from lmtui.engine.repair import CUT_OFF, UNFINISHED
from lmtui.engine.syntax import MOST_FILES
from lmtui.engine.turn_outcome import goes_on

_STOPS = (TurnReason.INTERRUPTED, TurnReason.ERROR, TurnReason.LIMIT)


@dataclass(slots=True)
class StaleContextTracker:
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


_CLAIM = "plan_complete_step"
_MOST_RUNS = 50


@dataclass(slots=True)
class StepTracker:
    """Follows the step under way; a command that changes files makes earlier runs old, unless it is the check itself."""

    step: PlanStep | None = None
    runs: list[CommandRun] = field(default_factory=list)
    has_changed: bool = False
    has_looked: bool = False
    is_doubted: bool = False
    _programs: frozenset[str] = frozenset()
    _commands: dict[str, str] = field(default_factory=dict)

    @property
    def work(self) -> StepWork:
        """Return what was done on the step so far."""
        return StepWork(tuple(self.runs), self.has_changed, self.has_looked, self.is_doubted)

    def apply(self, event: Event) -> None:
        """Take up an event of the agent."""
        match event:
            case PlanChanged(plan=plan):
                self._turn_to(current_step(plan))
            case _ if self.step is None:
                pass
            case ToolCallStarted(tool="shell", call_id=call_id, arguments=arguments):
                self._commands[call_id] = str(arguments.get("command", ""))
            case FilesChanged(call_id=call_id):
                if not is_run_of(self._programs, self._commands.get(call_id, "")):
                    self._change()
            case FilesRestored() | Rewound():
                self._change()
            case ToolCallFinished():
                self._finish(event)
            case _:
                pass

    def _turn_to(self, step: PlanStep | None) -> None:
        if (step.id if step else 0) != (self.step.id if self.step else 0):
            self.runs, self.has_changed, self.has_looked, self.is_doubted = [], False, False, False
        if step != self.step:
            self.step, self._programs = step, programs_of(step) if step else frozenset()

    def _change(self) -> None:
        self.has_changed, self.has_looked, self.is_doubted = True, False, False
        self.runs.clear()

    def _finish(self, event: ToolCallFinished) -> None:
        command = self._commands.pop(event.call_id, None)
        if command is not None:
            outcome = event.summary or (WELL if event.ok else REFUSED)
            self.runs = [*self.runs, CommandRun(command, outcome)][-_MOST_RUNS:]
            if is_run_of(self._programs, command):
                self.is_doubted = False
        if facts_of(event.tool).looks and (event.ok or command is not None):
            self.has_looked = True
        if event.tool == _CLAIM and not event.ok:
            self.is_doubted = True


@dataclass(slots=True)
class TaskSteps:
    """Counts the answers of a task, from the agent's events; live and on replay alike."""

    count: int = 0
    _is_cut_off: bool = False
    _awaits_words: bool = False

    def apply(self, event: Event) -> None:
        """Take up an event of the agent."""
        match event:
            case TurnStarted():
                self._awaits_words = True
            case MessageAdded(role=Role.USER, text=text) if self._awaits_words:
                self._awaits_words = False
                if not (self._is_cut_off and goes_on(text)):
                    self.count = 0
            case MessageAdded(role=Role.ASSISTANT):
                self.count += 1
            case WaitSet():  # what it does when it wakes is a new stretch
                self.count = 0
            case TurnEnded(error=error):
                self._is_cut_off = error == CUT_OFF
            case _:
                pass


class Waits:
    """What one agent waits for, told by events: a wait holds until the next turn starts."""

    def __init__(self) -> None:
        self.current: Wait | None = None
        self._wanted: Wait | None = None
        self._refused = 0

    def apply(self, event: Event) -> None:
        """Take up what an event changes, live and replayed."""
        if isinstance(event, TurnStarted):
            self.current = self._wanted = None
            self._refused = 0
        elif isinstance(event, WaitSet):
            self.current = Wait(as_utc(event.until), event.why)

    def want(self, until: datetime, why: str, now: datetime) -> Wait:
        """Let the turn end behind the calls that run now, to wait.

        Raises:
            UsageError: it cannot be waited that long.
        """
        self._wanted = checked_wait(until, why, now)
        return self._wanted

    def after(self, completion: Completion, now: datetime) -> Wait | str:
        """Return the wait that an answer whose calls were run ends with, else what the model is told, empty for nothing.

        A line that cannot be read is told once in a turn.
        """
        if self._wanted is not None:
            return self._wanted
        if completion.message.tool_calls:
            return ""
        try:
            return read_wait(completion.message.text, now) or ""
        except UsageError as error:
            self._refused += 1
            return f"You do not wait: {error.full_text()}" if self._refused == 1 else ""


_MOST_CLAIMS = 500


@dataclass(slots=True)
class OpenWorkTracker:
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
