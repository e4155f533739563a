"""The state of an agent: frozen, and changed only by `apply`, which takes the next event, live and on replay alike.

The journal of a session appends each event to the log, applies it, and only then publishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from lmtui.core import events
from lmtui.core.agent_events import Wait, WaitSet
from lmtui.core.errors import SessionFileError
from lmtui.core.messages import ToolSet
from lmtui.core.model_events import ToolSetChanged, VisionChanged
from lmtui.core.permissions.decide import Effect, Mode, Rule
from lmtui.core.plan import Plan
from lmtui.core.plan_mode import PlanMode, after
from lmtui.core.ports import SessionLog
from lmtui.core.sanitize import Redactor
from lmtui.core.sessions import Subscriber
from lmtui.core.times import as_utc
from lmtui.engine.context import ModelSettings
from lmtui.engine.entries import History
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

    agent: str = events.ROOT
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
            case ToolSetChanged(tools=tools, edits=edits) if tools in tuple(ToolSet):
                changed = replace(self, model=replace(self.model, tool_set=ToolSet(tools), edits=edits))
            case events.TurnStarted():
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


_log = logging.getLogger(__name__)


class Journal:
    """The one way out for events of a session.

    Args:
        session_id: continues every envelope.
        log: where durable events are written before anybody sees them.
        now: the time in UTC.
        take_up: lets a durable event change the session's state; called live and on replay alike.
        redactor: takes the values of keys out of every event before anybody gets it, the model too.
    """

    def __init__(
        self,
        session_id: str,
        log: SessionLog,
        now: Callable[[], datetime],
        take_up: Callable[[events.Event], None],
        redactor: Redactor,
    ) -> None:
        self._redactor = redactor
        self._session_id = session_id
        self._log = log
        self._now = now
        self._take_up = take_up
        self._history = History()
        self._subscribers: list[Subscriber] = []
        self._seq = 0

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
        envelope = events.Envelope(self._seq, self._now(), self._session_id, self._redactor.value(event))
        if event.durable:
            try:
                self._log.append(envelope)
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
        self._publish(events.Envelope(self._seq, self._now(), self._session_id, notice))

    def sync(self) -> None:
        """Force the log to the disk."""
        try:
            self._log.sync()
        except SessionFileError as error:
            self.show_problem(error)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each later event; the returned function ends it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def close(self) -> None:
        """Let go of the log and of everyone who listens."""
        self._subscribers.clear()
        self._log.close()

    def _keep(self, envelope: events.Envelope) -> None:
        self._history.add(envelope)
        self._seq = max(self._seq, envelope.seq)
        self._take_up(envelope.event)

    def _publish(self, envelope: events.Envelope) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(envelope)
            except Exception:  # noqa: BLE001  (border: an event subscriber; one that fails does not stop the others)
                _log.exception("a subscriber of session %s failed at %s", self._session_id, envelope.event.kind)
