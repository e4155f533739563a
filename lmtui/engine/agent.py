"""An agent: its frozen state, the services that act for it, and what it keeps of the turn under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lmtui.core.agent_events import Wait
from lmtui.core.events import Event, MessageAdded, ModelChanged
from lmtui.core.messages import Priority, Role, ToolCallFormat, ToolSet, ToolSpec
from lmtui.core.model_events import CallFormChanged, VisionChanged
from lmtui.core.permissions.decide import Effect, Rule
from lmtui.core.permissions.rules import FileEffect, traits_of
from lmtui.core.ports import Checkpoints, FeatureServices, Images, Limits, Provider, Sandbox, Toolbox
from lmtui.core.roles import ModelRole, Roles
from lmtui.core.subagents import Children, Report
from lmtui.engine.agent_state import AgentState
from lmtui.engine.approvals import Approvals
from lmtui.engine.context import Conversation
from lmtui.engine.context_budget import WHOLE, ContextBudget
from lmtui.engine.inbox import Inbox
from lmtui.engine.loop_detection import LoopDetector, at_depth
from lmtui.engine.spending import Spending
from lmtui.engine.tool_call_policy import KnownModel, ModelOverride
from lmtui.engine.turn_hooks import TurnHooks

_EVERYTHING = ("*", "**")


@dataclass(frozen=True, slots=True)
class AgentServices:
    """What acts for an agent; the agents of a session share most of it.

    `emit` writes an event to the log and publishes it.  `now` is UTC, `monotonic` counts seconds and never goes back.
    Calls that may change files hold `writing`, so that it is known which agent changed what.  `call_ids` are those of all
    calls of the session.
    """

    provider: Provider
    toolbox: Toolbox
    sandbox: Sandbox
    approvals: Approvals
    limits: Limits
    emit: Callable[[Event], None]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    start_sandbox: Callable[[], None]
    spending: Spending
    checkpoints: Checkpoints | None = None
    images: Images | None = None
    features: FeatureServices = field(default_factory=FeatureServices)
    call_ids: set[str] = field(default_factory=set)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class ModelAccess:
    """How an agent reaches its model: what is known of it, how much fits, and which models do other work.

    The server does not have the models of `missing_roles`; `vision` is what the user says about the model's sight; an
    `override` ends with the turn.
    """

    known: KnownModel = field(default_factory=KnownModel)
    window: ContextBudget = field(default_factory=ContextBudget)
    roles: Roles = field(default_factory=dict)
    asks_for_title: Callable[[bool], bool] = bool
    missing_roles: set[ModelRole] = field(default_factory=set)
    vision: bool | None = None
    override: ModelOverride | None = None

    def for_subagent(self) -> ModelAccess:
        """Return the same model for another agent."""
        return ModelAccess(self.known.another(), self.window.another(), self.roles, vision=self.vision, override=self.override)

    def apply(self, event: Event, model: str) -> None:
        """Take up an event of the agent, whose model so far is `model`."""
        match event:
            case ModelChanged() if event.model != model:
                self.known.calling.begin_anew()
                self.window.budget.use_form(self.known.calling.form)
            case VisionChanged(sees=sees):
                self.window.budget.use_sight(sees=sees is not False)
            case MessageAdded(role=Role.ASSISTANT):  # it was asked with these tools, and keeps them
                self.window.chosen_for = model
            case CallFormChanged(form=form) if form in tuple(ToolCallFormat):
                lets_go = event.lets_go
                self.known.calling.take(ToolCallFormat(form), event.why, is_by_hand=event.is_by_hand, lets_go=lets_go)
                self.window.budget.use_form(ToolCallFormat(form))
            case _:
                pass


@dataclass(slots=True)
class TurnState:
    """What an agent keeps while one turn runs.

    `files` are those that it changed; a sub-agent is done once it has given its `report`.  `open_work_told` is how much open
    work the model was reminded of (None: not reminded yet).
    """

    id: str = ""
    files: dict[str, None] = field(default_factory=dict)
    report: Report | None = None
    has_read_instructions: bool = False
    wanted_wait: Wait | None = None
    refused_waits: int = 0
    open_work_told: int | None = None


@dataclass(slots=True)
class Agent:
    """One agent at work.  `checkpoint_problem` is why the last checkpoint could not be made, as the user was told."""

    state: AgentState
    services: AgentServices
    conversation: Conversation
    model: ModelAccess = field(default_factory=ModelAccess)
    hooks: TurnHooks = field(default_factory=TurnHooks)
    inbox: Inbox = field(default_factory=Inbox)
    loops: LoopDetector = field(default_factory=LoopDetector)
    turn: TurnState = field(default_factory=TurnState)
    children: Children | None = None
    checkpoint_problem: str = ""

    def __post_init__(self) -> None:
        self.loops.limits = at_depth(self.services.limits, self.state.depth)

    @property
    def id(self) -> str:
        """Return the agent's id."""
        return self.state.agent

    @property
    def priority(self) -> Priority:
        """Return how urgent its requests are."""
        return Priority.SUBAGENT if self.state.depth else Priority.USER

    def emit(self, event: Event) -> None:
        """Write an event to the log and publish it."""
        self.services.emit(event)

    def apply(self, event: Event) -> None:
        """Take up a durable event of the session, live and on replay alike."""
        model = self.state.model.settings.model
        self.state = self.state.apply(event)
        if event.agent == self.id:
            self.conversation.apply(event)
            self.loops.apply(event)
            self.model.apply(event, model)

    def update_model(self, **changes: Any) -> None:
        """Change what no event tells about the model in use."""
        self.state = replace(self.state, model=replace(self.state.model, **changes))

    def update_sandbox(self, **changes: Any) -> None:
        """Change what no event tells about the sandbox in use."""
        self.state = replace(self.state, sandbox=replace(self.state.sandbox, **changes))

    def begin(self, turn_id: str) -> None:
        """Start a turn in which nothing was changed yet."""
        self.turn = TurnState(turn_id)
        self.hooks.begin()

    @property
    def effective_sandbox(self) -> Sandbox:
        """Return the sandbox for calls: a read-only one where the agent only reads."""
        return self.services.sandbox.read_only() if self.state.only_reads else self.services.sandbox

    def all_rules(self) -> tuple[Rule, ...]:
        """Return every rule in force."""
        return (*self.state.rules, *self.services.approvals.granted)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tool descriptions for the model, without tools that a user's rule denies completely."""
        specs = self.services.toolbox.specs(self.state.model.tool_set, sees=self.supports_vision)
        forbidding = [rule for rule in self.state.rules if rule.effect is Effect.DENY and rule.pattern in _EVERYTHING]
        is_left_out = {spec.name: self.state.model.edits == WHOLE and spec.name == "edit" for spec in specs}
        is_left_out |= {name: True for name in is_left_out if any(_forbids(rule, name) for rule in forbidding)}
        return tuple(spec for spec in specs if not is_left_out[spec.name]) if any(is_left_out.values()) else specs

    @property
    def supports_vision(self) -> bool:
        """Tell whether the model in use, or the one named for pictures, is known to see them."""
        return bool(self.state.model.sees or self.state.model.vision_model)

    @property
    def may_send_images(self) -> bool:
        """Tell whether pictures may be sent; they are, unless the model is known not to see them."""
        return self.state.model.sees is not False or bool(self.state.model.vision_model)

    def with_window(self, window_tokens: int) -> ModelChanged:
        """Return the event that says how large the window of the model in use really is, and which the server's default is."""
        model, served = self.state.model.settings.model, self.model.known.served
        return ModelChanged(
            agent=self.id,
            model=model,
            default_model=served.name if served is not None and not model else "",
            url=self.services.provider.url,
            window_tokens=window_tokens,
            role=self.state.model.role,
            is_for_turn=self.has_model_override,
        )

    @property
    def has_model_override(self) -> bool:
        """Tell whether the session's model was replaced for this turn only."""
        return self.model.override is not None and self.state.model.main.model == self.model.override.model

    @property
    def is_weak(self) -> bool:
        """Tell whether the model needs an example and is doubted: it calls tools as text, or has a small window."""
        is_small = self.state.model.tool_set in (ToolSet.LEAN, ToolSet.LONG)
        return is_small or self.model.known.calling.form is not ToolCallFormat.NATIVE

    def result_limit_chars(self) -> int:
        """Return how much of a tool's result the model gets; see `Budget.result_chars`."""
        return self.model.window.budget.result_chars(self.state.model.window_tokens)


def _forbids(rule: Rule, tool: str) -> bool:
    """Tell whether a rule is about a tool, or about another one that does the same."""
    effect = traits_of(tool).file_effect
    return rule.names(tool) or (
        effect in (FileEffect.SHOWS, FileEffect.CHANGES, FileEffect.RUNS) and traits_of(rule.tool).file_effect is effect
    )
