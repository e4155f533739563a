"""An agent: its frozen state, the journal, the services that act for it, and what it keeps of the turn under way.

The state changes only by `apply`, which takes the next event, live and on replay alike.  The journal of a session appends each
event to the log, applies it, and only then publishes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lmtui.core import events
from lmtui.core.agent_events import Wait
from lmtui.core.errors import SessionFileError
from lmtui.core.events import Event, MessageAdded, ModelChanged
from lmtui.core.messages import ModelRequest, Priority, Role, ToolCall, ToolCallFormat, ToolChoice, ToolSet, ToolSpec
from lmtui.core.model_events import CallFormChanged, Reminder, ToolSetChanged, VisionChanged
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Decision, Effect, FileEffect, Mode, Rule, traits_of
from lmtui.core.plan import Plan
from lmtui.core.plan_mode import PlanMode, after
from lmtui.core.ports import (
    Checkpoints,
    Images,
    Limits,
    PreparedCall,
    Provider,
    Sandbox,
    SessionLog,
    Toolbox,
    ToolResult,
)
from lmtui.core.roles import ModelRole, Roles
from lmtui.core.sanitize import Redactor
from lmtui.core.servers import ModelLoader
from lmtui.core.sessions import Subscriber
from lmtui.core.subagents import Report, RunTasks
from lmtui.core.tool_scopes import SkillTracker
from lmtui.core.verification import VerificationTracker
from lmtui.engine.approvals import Approvals
from lmtui.engine.context import Conversation, ModelSettings
from lmtui.engine.context_budget import ContextBudget
from lmtui.engine.entries import History
from lmtui.engine.inbox import Inbox
from lmtui.engine.loop_detection import LoopDetector, OpenWorkTracker, StaleContextTracker, StepTracker, TaskSteps
from lmtui.engine.spending import Spending
from lmtui.engine.tool_call_policy import KnownModel, ModelOverride
from lmtui.engine.trial import SessionWorkspace
from lmtui.engine.turn_outcome import EXIT_CODES


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """The model that an agent asks.

    `settings` belong to the model in use and `main` to the session's own model; `role` is empty while both are the same.
    `sees` tells whether it sees pictures (None: unknown), and `vision_model` is asked about pictures in its place.
    `tool_set` is the set of tools that it is offered.
    """

    settings: ModelSettings = field(default_factory=ModelSettings)
    main: ModelSettings = field(default_factory=ModelSettings)
    role: str = ""
    window_tokens: int = 0
    tool_set: ToolSet = ToolSet.FULL
    sees: bool | None = None
    vision_model: str = ""

    def changed(self, event: events.ModelChanged) -> ModelInUse:
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
    `is_overlay`: all that calls change is kept or dropped later.
    """

    name: str = ""
    text: str = ""
    folder: str = ""
    asks_each_command: bool = False
    is_read_only: bool = False
    has_read_only: bool | None = None
    has_overlays: bool = False
    is_overlay: bool = False
    masks_git: bool = False


@dataclass(frozen=True, slots=True)
class AgentState:
    """Everything about an agent that events determine, except for its conversation and its loop detector, which only grow.

    A sub-agent has a `depth` above 0, and one that `is_narrow` only reads.  `rules` come from flags and settings; those that
    were granted in the session are in the approvals.
    """

    agent: str = events.ROOT
    depth: int = 0
    is_narrow: bool = False
    mode: Mode = Mode.NORMAL
    rules: tuple[Rule, ...] = ()
    plan: Plan = field(default_factory=Plan)
    planning: PlanMode = field(default_factory=PlanMode)
    model: ModelInUse = field(default_factory=ModelInUse)
    sandbox: SandboxInUse = field(default_factory=SandboxInUse)
    open_work: OpenWorkTracker = field(default_factory=OpenWorkTracker)
    stale_context: StaleContextTracker = field(default_factory=StaleContextTracker)
    step: StepTracker = field(default_factory=StepTracker)
    task_steps: TaskSteps = field(default_factory=TaskSteps)
    skills: SkillTracker = field(default_factory=SkillTracker)
    verification: VerificationTracker = field(default_factory=VerificationTracker)

    @property
    def only_reads(self) -> bool:
        """Tell whether nothing may be changed: in plan mode, and by an agent that was sent to explore."""
        return self.is_narrow or self.mode is Mode.PLAN

    def apply(self, event: events.Event) -> AgentState:
        """Return the state after an event: mode, rules and sandbox hold for all agents, the rest for the event's own."""
        match event:
            case events.ModeChanged(mode=mode) if mode in tuple(Mode):
                changed = replace(self, mode=Mode(mode))
            case events.RuleRevoked(rule=rule, effect=Effect.ALLOW):  # a log may only make the session stricter again
                kept = tuple(each for each in self.rules if str(each) != rule or each.effect is not Effect.ALLOW)
                changed = replace(self, rules=kept)
            case events.SandboxSelected(backend=name, text=text, asks_each_command=asks):
                changed = replace(self, sandbox=replace(self.sandbox, name=name, text=text, asks_each_command=asks))
            case events.FilesChanged() if event.agent != self.agent:  # what a sub-agent changed is the turn's change
                changed = replace(self, verification=self.verification.apply(event))
            case _:
                changed = self
        return changed._apply_own(event) if event.agent == self.agent else changed

    def _apply_own(self, event: events.Event) -> AgentState:
        match event:
            case events.PlanChanged(plan=plan):
                changed = replace(self, plan=plan)
            case events.ModelChanged():
                changed = replace(self, model=self.model.changed(event))
            case VisionChanged(sees=sees, by=by):
                changed = replace(self, model=replace(self.model, sees=sees, vision_model=by))
            case ToolSetChanged(tools=tools) if tools in tuple(ToolSet):
                changed = replace(self, model=replace(self.model, tool_set=ToolSet(tools)))
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
            verification=self.verification.apply(event),
        )


_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Journal:
    """The one way out for events of a session.

    Durable events are written to the `log` before anybody sees them; `take_up` lets one change the session's state, live and on
    replay alike.  `now` is the time in UTC.  The `redactor` takes the values of keys out of every event before anybody gets it,
    the model too.
    """

    session_id: str
    log: SessionLog
    now: Callable[[], datetime]
    take_up: Callable[[events.Event], None]
    redactor: Redactor
    _history: History = field(default_factory=History)
    _subscribers: list[tuple[Subscriber, tuple[type[events.Event], ...]]] = field(default_factory=list)
    _seq: int = 0

    @property
    def history(self) -> Sequence[events.Envelope]:
        """Return every durable event so far, oldest first."""
        return self._history.read()

    def replay(self, past: Sequence[events.Envelope]) -> None:
        """Take up what an earlier run has written."""
        for envelope in past:
            self._keep(envelope)

    def emit(self, event: events.Event) -> None:
        """Write an event, take it up and publish it.

        Raises:
            SessionFileError: it could not be written.  It was published all the same, so that what happened can be seen,
                but it is not a part of the session.
        """
        self._seq += 1
        envelope = events.Envelope(self._seq, self.now(), self.session_id, self.redactor.value(event))
        if event.durable:
            try:
                self.log.append(envelope)
            except SessionFileError:
                self._publish(envelope)
                raise
            self._keep(envelope)
        self._publish(envelope)

    def emit_from_outside(self, event: events.Event) -> None:
        """Emit an event that no turn waits for; a log that cannot be written becomes a notice."""
        try:
            self.emit(event)
        except SessionFileError as error:
            self.show_problem(error)

    def show_problem(self, error: SessionFileError) -> None:
        """Show that the log fails; the notice itself cannot be stored."""
        self._seq += 1
        notice = events.Notice(level=events.Level.ERROR, text=error.full_text())
        self._publish(events.Envelope(self._seq, self.now(), self.session_id, notice))

    def sync(self) -> None:
        """Force the log to the disk."""
        try:
            self.log.sync()
        except SessionFileError as error:
            self.show_problem(error)

    def subscribe(self, subscriber: Subscriber, *kinds: type[events.Event]) -> Callable[[], None]:
        """Call `subscriber` with each later event, or each of some kinds; the returned function ends it."""
        entry = (subscriber, kinds or (events.Event,))
        self._subscribers.append(entry)

        def unsubscribe() -> None:
            if entry in self._subscribers:
                self._subscribers.remove(entry)

        return unsubscribe

    def close(self) -> None:
        """Let go of the log and of everyone who listens."""
        self._subscribers.clear()
        self.log.close()

    def _keep(self, envelope: events.Envelope) -> None:
        self._history.add(envelope)
        self._seq = max(self._seq, envelope.seq)
        self.take_up(envelope.event)

    def _publish(self, envelope: events.Envelope) -> None:
        for subscriber, kinds in tuple(self._subscribers):
            try:
                if isinstance(envelope.event, kinds):
                    subscriber(envelope)
            except Exception:  # noqa: BLE001  (border: an event subscriber; one that fails does not stop the others)
                _log.exception("a subscriber of session %s failed at %s", self.session_id, envelope.event.kind)


class PromptHeld(Exception):
    """A feature holds the user's words back; the text says why."""


@dataclass(frozen=True, slots=True)
class CallReview:
    """What a feature says of a call before anybody decides about it.

    `prepared` is the call as it leaves it, and `note` tells the model what it changed.  `overrule` returns what holds in place
    of the decision about the call and the paths behind it; its record has `by` as who decided then.  With a `refusal` it
    refuses the call.
    """

    prepared: PreparedCall
    overrule: Callable[[Decision, tuple[str, ...]], Decision]
    by: str
    refusal: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TurnPoints:
    """What features have called in the turns of a session, by point.

    `before_message` gets the user's words, and returns what the model is told with them, or raises `PromptHeld`.  `before_work`
    is called behind them, and returns why the turn ends at once, if it does.  `before_request` may remind the model of
    something.  `turn_end` gets the last answer and what it leaves open, and returns why the turn may not end yet, in words for
    the model, and what it leaves open, for the user.  Before a compaction, its trigger and what matters most are told.
    """

    before_turn: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    before_message: list[Callable[[Agent, str], Awaitable[str]]] = field(default_factory=list)
    before_work: list[Callable[[Agent], Awaitable[str]]] = field(default_factory=list)
    before_request: list[Callable[[Agent], None]] = field(default_factory=list)
    before_call: list[Callable[[Agent, ToolCall, PreparedCall], Awaitable[CallReview]]] = field(default_factory=list)
    after_call: list[Callable[[Agent, ToolCall, PreparedCall, ToolResult], Awaitable[ToolResult]]] = field(default_factory=list)
    before_compaction: list[Callable[[Agent, str, str], Awaitable[None]]] = field(default_factory=list)
    after_step: list[Callable[[Agent], Awaitable[None]]] = field(default_factory=list)
    turn_end: list[Callable[[Agent, str, str], Awaitable[tuple[str, str]]]] = field(default_factory=list)
    after_turn: list[Callable[[Agent, events.TurnReason], None]] = field(default_factory=list)


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
    workspace: SessionWorkspace
    approvals: Approvals
    limits: Limits
    emit: Callable[[Event], None]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    start_sandbox: Callable[[], None]
    spending: Spending
    images: Images | None = None
    features: Offers = field(default_factory=Offers)
    points: TurnPoints = field(default_factory=TurnPoints)
    call_ids: set[str] = field(default_factory=set)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sandbox(self) -> Sandbox:
        """Return the workspace as calls work on it now: through an overlay in the try mode."""
        return self.workspace.sandbox

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Return the states of that, None where none can be kept."""
        return self.workspace.checkpoints


@dataclass(slots=True)
class ModelAccess:
    """How an agent reaches its model: what is known of it, how much fits, and which models do other work.

    The server does not have the models of `missing_roles`; `vision` is what the user says about the model's sight; an
    `override` ends with the turn.
    """

    known: KnownModel = field(default_factory=KnownModel)
    window: ContextBudget = field(default_factory=ContextBudget)
    roles: Roles = field(default_factory=dict)
    has_spare_slot: Callable[[], bool] = bool
    missing_roles: set[ModelRole] = field(default_factory=set)
    vision: bool | None = None
    override: ModelOverride | None = None
    loader: ModelLoader | None = None

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


@dataclass(slots=True)
class TurnState:
    """What an agent keeps while one turn runs.

    `files` are those that it changed; a sub-agent is done once it has given its `report`.  `open_work_told` is how much open
    work the model was reminded of (None: not reminded yet).  `ended_by` is why a feature wants no more of it, `held` how often
    one held up its end.
    """

    id: str = ""
    files: dict[str, None] = field(default_factory=dict)
    report: Report | None = None
    has_read_instructions: bool = False
    wanted_wait: Wait | None = None
    refused_waits: int = 0
    open_work_told: int | None = None
    ended_by: str = ""
    held: int = 0


@dataclass(slots=True)
class Agent:
    """One agent at work.  `checkpoint_problem` is why the last checkpoint could not be made, as the user was told."""

    state: AgentState
    services: AgentServices
    conversation: Conversation
    model: ModelAccess = field(default_factory=ModelAccess)
    inbox: Inbox = field(default_factory=Inbox)
    loops: LoopDetector = field(init=False)
    turn: TurnState = field(default_factory=TurnState)
    children: RunTasks | None = None
    checkpoint_problem: str = ""

    def __post_init__(self) -> None:
        self.loops = LoopDetector(self.state.depth)

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

    def remind(self, text: str, topic: str = "") -> None:
        """Add a reminder to what the model is sent next."""
        self.emit(Reminder(agent=self.id, text=text, turn_id=self.turn.id, topic=topic))

    def notify(self, text: str, level: events.Level = events.Level.WARNING) -> None:
        """Tell the user something."""
        self.emit(events.Notice(agent=self.id, level=level, text=text))

    def apply(self, event: Event) -> None:
        """Take up a durable event of the session, live and on replay alike."""
        model = self.state.model.settings.model
        self.state = self.state.apply(event)
        if event.agent == self.id:
            self.conversation.apply(event)
            self.loops.apply(event)
            self.model.apply(event, model)

    def update_sandbox(self, **changes: Any) -> None:
        """Change what no event tells about the sandbox in use."""
        self.state = replace(self.state, sandbox=replace(self.state.sandbox, **changes))

    def begin(self, turn_id: str) -> None:
        """Start a turn in which nothing was changed yet."""
        self.turn = TurnState(turn_id)

    async def announce_compaction(self, trigger: str, focus: str = "") -> None:
        """Call what waits for room being made in the window."""
        for each in self.services.points.before_compaction:
            await each(self, trigger, focus)

    def end_turn(self, reason: events.TurnReason, began: float, **more: Any) -> None:  # Any: further fields of the event
        """Say how a turn ended that began at a time of the monotonic clock."""
        self.emit(
            events.TurnEnded(
                agent=self.id,
                turn_id=self.turn.id,
                reason=reason,
                status=str(reason),
                exit_code=EXIT_CODES[reason],
                files_changed=tuple(self.turn.files),
                elapsed_s=round(self.services.monotonic() - began, 3),
                sandbox=self.state.sandbox.name,
                **more,
            )
        )

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
        left_out = {spec.name for spec in specs if any(_forbids(rule, spec.name) for rule in forbidding)}
        return tuple(spec for spec in specs if spec.name not in left_out) if left_out else specs

    def request(self, settings: ModelSettings, hold: ToolChoice = ToolChoice.AUTO) -> ModelRequest:
        """Return the next request, in the form in which the model calls tools."""
        form = self.model.known.calling.form
        return self.conversation.request(
            self.specs(),
            settings,
            call_form=form,
            hold=hold,
            sees=self.state.model.sees is not False,
            urgency=self.priority,
            shows_example=form is not ToolCallFormat.NATIVE,
            is_attended=self.services.approvals.is_attended,
            hidden=tuple(spec for spec in self.services.toolbox.specs(ToolSet.HIDDEN) if spec.is_hidden),
        )

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
