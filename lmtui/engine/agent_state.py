"""The state of an agent: frozen, and changed only by `apply`, which takes the next event, live and on replay alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lmtui.core.agent_events import Wait, WaitSet
from lmtui.core.events import (
    ROOT,
    Event,
    ModeChanged,
    ModelChanged,
    PlanChanged,
    RuleRevoked,
    SandboxSelected,
    TurnStarted,
)
from lmtui.core.messages import ToolSet
from lmtui.core.model_events import ToolSetChanged, VisionChanged
from lmtui.core.permissions.decide import Effect, Mode, Rule
from lmtui.core.plan import Plan
from lmtui.core.plan_mode import PlanMode, after
from lmtui.core.times import as_utc
from lmtui.engine.context import ModelSettings
from lmtui.engine.open_work import OpenWorkTracker, StaleContextTracker, StepTracker, TaskSteps
from lmtui.engine.skill_use import SkillTracker


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """The model that an agent asks.

    `settings` belong to the model in use and `main` to the session's own model; `role` is empty while both are the same.
    `sees` tells whether it sees pictures (None: unknown), and `vision_model` is asked about pictures in its place.
    `tool_set` is the set of tools that it is offered; with `edits` set to `WHOLE` it writes files whole.
    """

    settings: ModelSettings = field(default_factory=ModelSettings)
    main: ModelSettings = field(default_factory=ModelSettings)
    role: str = ""
    window_tokens: int = 0
    tool_set: ToolSet = ToolSet.FULL
    edits: str = ""
    sees: bool | None = None
    vision_model: str = ""

    def changed(self, event: ModelChanged) -> ModelInUse:
        """Return this after another model was chosen; only the session's own model has no role."""
        return replace(
            self,
            settings=replace(self.settings, model=event.model),
            main=self.main if event.role else replace(self.main, model=event.model),
            role=event.role,
            window_tokens=event.window_tokens,
        )


@dataclass(frozen=True, slots=True)
class SandboxInUse:
    """What is known of the sandbox that is running; the name is empty until it has started.

    `is_read_only`: in plan mode it keeps commands from changing anything.  `has_read_only`: it can run commands that only read
    where they change nothing (None: unknown); with `masks_git`, git commands cannot see the contents of denied files there.
    """

    name: str = ""
    text: str = ""
    folder: str = ""
    asks_each_command: bool = False
    is_read_only: bool = False
    has_read_only: bool | None = None
    masks_git: bool = False


@dataclass(frozen=True, slots=True)
class AgentState:
    """Everything about an agent that events determine, except for its conversation and its loop detector, which only grow.

    A sub-agent has a `depth` above 0, and one that `is_narrow` only reads.  `rules` come from flags and settings; those that
    were granted in the session are in the approvals.
    """

    agent: str = ROOT
    depth: int = 0
    is_narrow: bool = False
    mode: Mode = Mode.NORMAL
    rules: tuple[Rule, ...] = ()
    plan: Plan = field(default_factory=Plan)
    planning: PlanMode = field(default_factory=PlanMode)
    model: ModelInUse = field(default_factory=ModelInUse)
    sandbox: SandboxInUse = field(default_factory=SandboxInUse)
    wait: Wait | None = None
    open_work: OpenWorkTracker = field(default_factory=OpenWorkTracker)
    stale_context: StaleContextTracker = field(default_factory=StaleContextTracker)
    step: StepTracker = field(default_factory=StepTracker)
    task_steps: TaskSteps = field(default_factory=TaskSteps)
    skills: SkillTracker = field(default_factory=SkillTracker)

    @property
    def only_reads(self) -> bool:
        """Tell whether nothing may be changed: in plan mode, and by an agent that was sent to explore."""
        return self.is_narrow or self.mode is Mode.PLAN

    def apply(self, event: Event) -> AgentState:
        """Return the state after an event: mode, rules and sandbox hold for all agents, the rest for the event's own."""
        match event:
            case ModeChanged(mode=mode) if mode in tuple(Mode):
                changed = replace(self, mode=Mode(mode))
            case RuleRevoked(rule=rule, effect=Effect.ALLOW):  # a log may only make the session stricter again
                kept = tuple(each for each in self.rules if str(each) != rule or each.effect is not Effect.ALLOW)
                changed = replace(self, rules=kept)
            case SandboxSelected(backend=name, text=text, asks_each_command=asks):
                changed = replace(self, sandbox=replace(self.sandbox, name=name, text=text, asks_each_command=asks))
            case _:
                changed = self
        return changed._apply_own(event) if event.agent == self.agent else changed

    def _apply_own(self, event: Event) -> AgentState:
        match event:
            case PlanChanged(plan=plan):
                changed = replace(self, plan=plan)
            case ModelChanged():
                changed = replace(self, model=self.model.changed(event))
            case VisionChanged(sees=sees, by=by):
                changed = replace(self, model=replace(self.model, sees=sees, vision_model=by))
            case ToolSetChanged(tools=tools, edits=edits) if tools in tuple(ToolSet):
                changed = replace(self, model=replace(self.model, tool_set=ToolSet(tools), edits=edits))
            case TurnStarted():
                changed = replace(self, wait=None)
            case WaitSet():
                changed = replace(self, wait=Wait(as_utc(event.until), event.why))
            case _:
                changed = self
        return replace(
            changed,
            planning=after(self.planning, event),
            open_work=self.open_work.apply(event),
            stale_context=self.stale_context.apply(event),
            step=self.step.apply(event),
            task_steps=self.task_steps.apply(event),
            skills=self.skills.apply(event),
        )
