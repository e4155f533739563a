"""What an agent began in its turn, from its events: todos, plan steps, task state and files, for the gate at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lmtui.core import events
from lmtui.core.agent_events import Wait, WaitSet
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.rules import FileEffect, traits_of
from lmtui.core.plan import REFUSED, WELL, CommandRun, Plan, PlanStep, StepWork, Todo, current_step, is_run_of, programs_of
from lmtui.core.times import as_utc
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.engine.repair import CUT_OFF, UNFINISHED
from lmtui.engine.syntax import MOST_FILES
from lmtui.engine.turn_outcome import goes_on

_STOPS = (events.TurnReason.INTERRUPTED, events.TurnReason.ERROR, events.TurnReason.LIMIT, events.TurnReason.UNFINISHED)


@dataclass(frozen=True, slots=True)
class StaleContextTracker:
    """Whether the model is to be told the state of its work, from its agent's events.

    `is_shaken`: it may no longer see what it did last; `is_lost`: it was stopped in a call and does not know the outcome.
    """

    is_due: bool = False
    is_shaken: bool = False
    is_lost: bool = False
    open_calls: frozenset[str] = frozenset()

    def apply(self, event: events.Event) -> StaleContextTracker:
        """Return this after an event of the agent."""
        match event:
            case events.ToolCallStarted(call_id=call_id, by=""):
                return replace(self, open_calls=self.open_calls | {call_id})
            case events.ToolCallFinished(call_id=call_id):
                is_lost = self.is_lost or event.summary == UNFINISHED
                return replace(self, open_calls=self.open_calls - {call_id}, is_lost=is_lost)
            case events.PlanChanged() if not self.open_calls:
                return replace(self, is_due=True)
            case Compacted() | events.Rewound():
                return replace(self, is_due=True, is_shaken=True)
            case events.TurnEnded(reason=reason) if reason in _STOPS:
                return replace(self, is_due=True, is_shaken=True, open_calls=frozenset())
            case Reminder(topic="state"):
                return self.cleared()
            case Reminder(topic="plan") if not self.is_shaken:  # it lists the steps itself
                return replace(self, is_due=False)
            case _:
                return self

    def cleared(self) -> StaleContextTracker:
        """Return this after the model was told, or nothing was left to tell."""
        return StaleContextTracker(open_calls=self.open_calls)


_CLAIM = "plan_complete_step"
_MOST_RUNS = 50


@dataclass(frozen=True, slots=True)
class StepTracker:
    """Follows the step under way; a command that changes files makes earlier runs old, unless it is the check itself."""

    step: PlanStep | None = None
    work: StepWork = field(default_factory=StepWork)
    programs: frozenset[str] = frozenset()
    commands: Mapping[str, str] = field(default_factory=dict)

    def apply(self, event: events.Event) -> StepTracker:
        """Return this after an event of the agent."""
        match event:
            case events.PlanChanged(plan=plan):
                return self._turn_to(current_step(plan))
            case _ if self.step is None:
                return self
            case events.ToolCallStarted(tool="shell", call_id=call_id, arguments=arguments):
                return replace(self, commands={**self.commands, call_id: str(arguments.get("command", ""))})
            case events.FilesChanged(call_id=call_id) if is_run_of(self.programs, self.commands.get(call_id, "")):
                return self
            case events.FilesChanged() | events.FilesRestored() | events.Rewound():
                return replace(self, work=StepWork(has_changed=True))
            case events.ToolCallFinished():
                return self._finish(event)
            case _:
                return self

    def _turn_to(self, step: PlanStep | None) -> StepTracker:
        is_same = (step.id if step else 0) == (self.step.id if self.step else 0)
        programs = programs_of(step) if step is not None and step != self.step else self.programs
        return replace(self, step=step, work=self.work if is_same else StepWork(), programs=programs if step else frozenset())

    def _finish(self, event: events.ToolCallFinished) -> StepTracker:
        command, work = self.commands.get(event.call_id), self.work
        if command is not None:
            outcome = event.summary or (WELL if event.ok else REFUSED)
            runs = (*work.runs, CommandRun(command, outcome))[-_MOST_RUNS:]
            is_doubted = work.is_doubted and not is_run_of(self.programs, command)
            work = replace(work, runs=runs, is_doubted=is_doubted)
        if traits_of(event.tool).looks and (event.ok or command is not None):
            work = replace(work, has_looked=True)
        if event.tool == _CLAIM and not event.ok:
            work = replace(work, is_doubted=True)
        others = {call_id: text for call_id, text in self.commands.items() if call_id != event.call_id}
        return replace(self, work=work, commands=others)


@dataclass(frozen=True, slots=True)
class TaskSteps:
    """Counts the answers of a task, and knows what the agent waits for, from its events."""

    count: int = 0
    wait: Wait | None = None
    is_cut_off: bool = False
    awaits_words: bool = False

    def apply(self, event: events.Event) -> TaskSteps:
        """Return this after an event of the agent."""
        match event:
            case events.TurnStarted():
                return replace(self, awaits_words=True, wait=None)
            case events.MessageAdded(role=Role.USER, text=text) if self.awaits_words:
                count = self.count if self.is_cut_off and goes_on(text) else 0
                return replace(self, awaits_words=False, count=count)
            case events.MessageAdded(role=Role.ASSISTANT):
                return replace(self, count=self.count + 1)
            case WaitSet():  # what it does when it wakes is a new stretch
                return replace(self, count=0, wait=Wait(as_utc(event.until), event.why))
            case events.TurnEnded(error=error):
                return replace(self, is_cut_off=error == CUT_OFF)
            case _:
                return self


_MOST_CLAIMS = 500


@dataclass(frozen=True, slots=True)
class OpenWorkTracker:
    """What an agent began, from its events.  `before` is the plan as the last turn left it, `births` the turn of each todo.

    `failed` is the last call where that should have changed a file and failed.
    `written` are the files that the turn changed a few at a time; `kept` are the calls before which a checkpoint was made.
    """

    plan: Plan = field(default_factory=Plan)
    before: Plan = field(default_factory=Plan)
    births: Mapping[int, str] = field(default_factory=dict)
    claimed: Mapping[str, None] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    written: Mapping[str, None] = field(default_factory=dict)
    turn: str = ""
    is_going_on: bool = False
    changed: frozenset[str] = frozenset()
    failed: str = ""
    has_ended: bool = True
    kept: frozenset[str] = frozenset()

    def apply(self, event: events.Event) -> OpenWorkTracker:
        """Return this after an event of the agent."""
        if isinstance(event, events.ToolCallFinished):
            return self._finish(event)
        match event:
            case events.TurnStarted(turn_id=turn_id):
                before = self.before if self.has_ended else self.plan
                return OpenWorkTracker(self.plan, before, self.births, turn=turn_id, has_ended=False)
            case events.MessageAdded(role=Role.USER, text=text):
                return replace(self, is_going_on=self.is_going_on or goes_on(text))
            case events.PlanChanged(plan=plan):
                texts = {todo.id: todo.text for todo in self.plan.todos}
                born = {todo.id: self.turn for todo in plan.todos if texts.get(todo.id) != todo.text}
                return replace(self, plan=plan, births={**self.births, **born})
            case events.TurnEnded():
                return replace(self, before=self.plan, has_ended=True)
            case events.FilesChanged(changes=changes):
                return self._take_changes(changes)
            case events.CheckpointCreated(call_id=call_id):
                return replace(self, kept=self.kept | {call_id})
            case events.FilesRestored():
                return replace(self, claimed={}, written={})
            case events.Rewound():  # the plan went back before it; nothing of that is the next turn's work
                return replace(self, claimed={}, written={}, before=self.plan)
            case _:
                return self

    def _finish(self, event: events.ToolCallFinished) -> OpenWorkTracker:
        traits = traits_of(event.tool)
        failed = "" if event.ok else self.failed
        if not event.ok and event.summary != REFUSED and traits.file_effect is FileEffect.CHANGES:
            failed = f"{event.tool}: {event.result.strip().partition(chr(10))[0]}"
        is_unknown = traits.may_change_unseen and event.call_id not in self.kept  # what it did to files is not known
        return replace(self, failed=failed, claimed={} if is_unknown else self.claimed)

    def _take_changes(self, changes: Sequence[FileChange]) -> OpenWorkTracker:
        paths = {change.path: None for change in changes}
        gone = {change.path for change in changes if change.kind is FileChangeKind.DELETED}
        written = {**self.written, **paths} if len(changes) <= MOST_FILES else self.written
        return replace(
            self,
            changed=self.changed | paths.keys(),
            gone=self.gone | gone,
            claimed={path: None for path in (*self.claimed, *paths) if path not in gone},
            written={path: None for path in written if path not in gone},
        )

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
        claimed = {**self.claimed}
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
