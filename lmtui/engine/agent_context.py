"""What a turn and its tool calls work with: one agent's parts, and the session's shared state behind a few functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from lmtui.core.events import ROOT, Event, ModelChanged
from lmtui.core.instruction_values import InstructionSource, NoInstructions
from lmtui.core.messages import Priority, ToolCallFormat, ToolSet, ToolSpec
from lmtui.core.permissions.decide import Effect, Mode, Rule
from lmtui.core.permissions.rules import FileEffect, facts_of
from lmtui.core.plan import Plan
from lmtui.core.plan_mode import PlanMode
from lmtui.core.ports import Checkpoints, Images, Limits, Provider, Sandbox, Toolbox
from lmtui.core.programs import Interpreter, NoInterpreter
from lmtui.core.roles import ModelRole, Roles
from lmtui.core.skills import NoSkills, SkillReader
from lmtui.core.subagents import Children, Report
from lmtui.core.web_pages import NoWeb, Web
from lmtui.engine.approvals import Approvals
from lmtui.engine.context import Conversation, ModelSettings
from lmtui.engine.context_budget import WHOLE, ContextBudget
from lmtui.engine.inbox import Inbox
from lmtui.engine.loop_detection import LoopDetector, at_depth
from lmtui.engine.open_work import OpenWorkTracker, StaleContextTracker, StepTracker, TaskSteps, Waits
from lmtui.engine.skill_use import SkillTracker
from lmtui.engine.spending import Spending
from lmtui.engine.tool_call_policy import KnownModel, ModelOverride
from lmtui.engine.turn_hooks import TurnHooks

_EVERYTHING = ("*", "**")


def _forbids(rule: Rule, tool: str) -> bool:
    """Tell whether a rule is about a tool, or about another one that does the same."""
    deed = facts_of(tool).deed
    return rule.names(tool) or (
        deed in (FileEffect.SHOWS, FileEffect.CHANGES, FileEffect.RUNS) and facts_of(rule.tool).deed is deed
    )


@dataclass(slots=True)
class AgentContext:
    """One agent at work.

    `emit` writes an event to the log and publishes it; `now` is UTC, `monotonic` seconds on a clock that only goes forward;
    `rules` are those from flags and settings, the ones granted in the session are in `approvals`; `checkpoint_problem` is why
    the last state could not be kept, as the user was told; `tool_set` is which tools the model is told about,
    `edits` whether it is to write files whole.
    `settings` are those of the model in use, `main` those of the session's own; `role` is empty while both are the same, and
    the server does not have the models of `missing_roles`.  `vision` is what the user says of the model's eyes, `sees` what
    holds, and `eyes` the model that looks at pictures in its place.  `files` are those that the turn changed.  A sub-agent
    is at a `depth` above 0, reads only where it `is_narrow`, and is done once it has given its `report`.
    `call_ids` are those of all calls of the session; `loops`, `gate`, `note` and `step` watch the agent through its events.
    Calls that may change files hold `writing`: of the agents of a session one at a time, so that it is known who changed what.
    `interpreter` is the Python that stays, `web` the way to the web; `guide` reads instruction files, last in the turn
    `guided`; `skills` are read there, and `scopes` knows what those in use leave to be called.
    `hooking` calls the hooks; a model is `borrowed` for one turn.
    `planning` is where plan mode is; `is_read_only`: the sandbox keeps commands from changing anything in that mode.
    `has_read_only`: commands that only read can run where they change nothing (None: not known yet); with `masks_git` those of
    git do not see what it keeps of files.
    """

    provider: Provider
    toolbox: Toolbox
    sandbox: Sandbox
    conversation: Conversation
    approvals: Approvals
    inbox: Inbox
    settings: ModelSettings
    limits: Limits
    mode: Mode
    rules: tuple[Rule, ...]
    emit: Callable[[Event], None]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    warm_up: Callable[[], None]
    agent: str = ROOT
    plan: Plan = field(default_factory=Plan)
    window_tokens: int = 0
    sandbox_name: str = ""
    sandbox_text: str = ""
    sandbox_folder: str = ""
    asks_each_command: bool = False
    checkpoints: Checkpoints | None = None
    checkpoint_problem: str = ""
    images: Images | None = None
    model: KnownModel = field(default_factory=KnownModel)
    window: ContextBudget = field(default_factory=ContextBudget)
    tool_set: ToolSet = ToolSet.FULL
    edits: str = ""
    loops: LoopDetector = field(default_factory=LoopDetector)
    gate: OpenWorkTracker = field(default_factory=OpenWorkTracker)
    note: StaleContextTracker = field(default_factory=StaleContextTracker)
    step: StepTracker = field(default_factory=StepTracker)
    main: ModelSettings = field(default_factory=ModelSettings)
    roles: Roles = field(default_factory=dict)
    role: str = ""
    missing_roles: set[ModelRole] = field(default_factory=set)
    vision: bool | None = None
    sees: bool | None = None
    eyes: str = ""
    depth: int = 0
    is_narrow: bool = False
    urgency: Priority = Priority.USER
    turn_id: str = ""
    files: dict[str, None] = field(default_factory=dict)
    children: Children | None = None
    report: Report | None = None
    call_ids: set[str] = field(default_factory=set)
    task_steps: TaskSteps = field(default_factory=TaskSteps)
    spending: Spending = field(default_factory=lambda: Spending(time.monotonic))
    planning: PlanMode = field(default_factory=PlanMode)
    is_read_only: bool = False
    has_read_only: bool | None = None
    masks_git: bool = False
    waits: Waits = field(default_factory=Waits)
    interpreter: Interpreter = field(default_factory=NoInterpreter)
    web: Web = field(default_factory=NoWeb)
    guide: InstructionSource = field(default_factory=NoInstructions)
    guided: str = ""
    skills: SkillReader = field(default_factory=NoSkills)
    scopes: SkillTracker = field(default_factory=SkillTracker)
    hooking: TurnHooks = field(default_factory=TurnHooks)
    borrowed: ModelOverride | None = None
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.loops.limits = at_depth(self.limits, self.depth)

    def begin(self, turn_id: str) -> None:
        """Take note that a turn begins; nothing was changed in it."""
        self.turn_id, self.files = turn_id, {}
        self.hooking.begin()

    @property
    def reach(self) -> Sandbox:
        """Return the sandbox that calls get: where the agent only reads, the one in which nothing can be changed."""
        return self.sandbox.read_only() if self.only_reads else self.sandbox

    @property
    def only_reads(self) -> bool:
        """Tell whether nothing may be changed: in plan mode, and by an agent that was sent to explore."""
        return self.is_narrow or self.mode is Mode.PLAN

    def all_rules(self) -> tuple[Rule, ...]:
        """Return every rule in force."""
        return (*self.rules, *self.approvals.granted)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tool descriptions for the model, without tools that a user's rule denies completely."""
        specs = self.toolbox.specs(self.tool_set, sees=self.has_eyes)
        forbidding = [rule for rule in self.rules if rule.effect is Effect.DENY and rule.pattern in _EVERYTHING]
        is_left_out = {spec.name: self.edits == WHOLE and spec.name == "edit" for spec in specs}
        is_left_out |= {name: True for name in is_left_out if any(_forbids(rule, name) for rule in forbidding)}
        return tuple(spec for spec in specs if not is_left_out[spec.name]) if any(is_left_out.values()) else specs

    @property
    def has_eyes(self) -> bool:
        """Tell whether it is known that pictures can be looked at, by the model in use or the one that is named for it."""
        return bool(self.sees or self.eyes)

    @property
    def can_show(self) -> bool:
        """Tell whether pictures may be sent; where nobody knows better, they are."""
        return self.sees is not False or bool(self.eyes)

    def with_window(self, window_tokens: int) -> ModelChanged:
        """Return the event that says how large the window of the model in use really is."""
        return ModelChanged(
            agent=self.agent,
            model=self.settings.model,
            url=self.provider.url,
            window_tokens=window_tokens,
            role=self.role,
            is_for_turn=self.has_borrowed,
        )

    @property
    def has_borrowed(self) -> bool:
        """Tell whether the session's model is one that it has for this turn only."""
        return self.borrowed is not None and self.main.model == self.borrowed.model

    def take_model(self, event: ModelChanged) -> None:
        """Ask another model from now on; in which form it calls tools is not known yet."""
        if event.model != self.settings.model:
            self.model.calling.begin_anew()
            self.window.budget.use_form(self.model.calling.form)
        self.settings = replace(self.settings, model=event.model)
        if not event.role:
            self.main = replace(self.main, model=event.model)
        self.role, self.window_tokens = event.role, event.window_tokens

    @property
    def is_weak(self) -> bool:
        """Tell whether the model is shown an example and its words are doubted: it calls in its text, or has little room."""
        return self.tool_set in (ToolSet.LEAN, ToolSet.LONG) or self.model.calling.form is not ToolCallFormat.NATIVE

    def result_limit_chars(self) -> int:
        """Return how much of a tool's result the model gets; see `Budget.result_chars`."""
        return self.window.budget.result_chars(self.window_tokens)
