"""What an agent did on the plan step that is under way, from its events; live and on replay alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.events import Event, PlanChanged, ToolCallFinished, ToolCallStarted
from lmtui.core.file_events import FilesChanged, FilesRestored, Rewound
from lmtui.core.plan import PlanStep
from lmtui.core.plan_steps import current_step
from lmtui.core.step_checks import REFUSED, WELL, CommandRun, StepWork, is_run_of, programs_of
from lmtui.core.tool_facts import facts_of

_CLAIM = "plan_complete_step"
_MOST_RUNS = 50


@dataclass(slots=True)
class StepWatch:
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
