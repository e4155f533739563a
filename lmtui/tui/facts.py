"""What is known of one session, reduced from its events.  No widgets, no clock: times are the events' own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from lmtui.core import events
from lmtui.core.agent_events import BackgroundChanged, Job, JobsChanged
from lmtui.core.background import BackgroundCommand
from lmtui.core.clean import clean_line, clean_path
from lmtui.core.events import Envelope, TurnReason
from lmtui.core.messages import Role
from lmtui.core.model_events import VisionChanged
from lmtui.core.plan import Plan
from lmtui.core.plan_events import PlanDecided, PlanProposed
from lmtui.core.plan_mode import PlanMode, after
from lmtui.core.times import as_utc
from lmtui.core.wait_events import WaitSet
from lmtui.core.workspace import FileChange
from lmtui.tui.agents import Agents
from lmtui.tui.changed_files import ChangedFiles

LAST_LINE_CHARS = 120


class Doing(StrEnum):
    """What the agent of a session is doing."""

    NOTHING = "nothing"
    WAITING_FOR_MODEL = "waiting_for_model"
    READING = "reading"
    THINKING = "thinking"
    WRITING = "writing"
    WRITING_CALL = "writing_call"
    RUNNING_TOOL = "running_tool"
    RETRYING = "retrying"


@dataclass(slots=True)
class Activity:
    """What goes on: `detail` is a tool with its title or a reason, `since` when it began, `chars` how much was written.

    Of a prompt that is read: how far (`ratio`, -1 is unknown), how many `tokens`, about how long, how many others come first.
    """

    doing: Doing = Doing.NOTHING
    detail: str = ""
    since: datetime | None = None
    ratio: float = -1.0
    chars: int = 0
    wait_s: float = 0.0
    tokens: int = 0
    estimate_s: float = 0.0
    queued: int = -1


@dataclass(slots=True)
class Facts:
    """The state of a session as panels around the transcript show it."""

    title: str = ""
    workspace: str = ""
    model: str = ""
    role: str = ""
    url: str = ""
    window_tokens: int = 0
    is_blind: bool = False
    mode: str = ""
    sandbox: events.SandboxSelected | None = None
    plan: Plan = field(default_factory=Plan)
    agents: Agents = field(default_factory=Agents)
    jobs: tuple[Job, ...] = ()
    background: tuple[BackgroundCommand, ...] = ()
    wakes: datetime | None = None
    queued: tuple[str, ...] = ()
    is_queue_paused: bool = False
    approvals: dict[str, events.ApprovalRequested] = field(default_factory=dict)
    planning: PlanMode = field(default_factory=PlanMode)
    usage: events.UsageUpdated | None = None
    activity: Activity = field(default_factory=Activity)
    changed_files: ChangedFiles = field(default_factory=ChangedFiles)
    is_running: bool = False
    reason: TurnReason | None = None
    error: str = ""
    last_line: str = ""
    _running_tools: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    @property
    def changes(self) -> Mapping[str, FileChange]:
        """Return what the session changed, by file."""
        return self.changed_files.net

    @property
    def waits(self) -> bool:
        """Tell whether the session waits for its user: for an approval, or a word on its plan."""
        return bool(self.approvals) or (self.proposal is not None and not self.is_running)

    @property
    def proposal(self) -> PlanProposed | None:
        """Return the plan that waits for an answer."""
        return self.planning.asked

    def apply(self, envelope: Envelope) -> None:
        """Take in one event."""
        event = envelope.event
        self.changed_files.apply(envelope)
        self.agents.apply(envelope)
        if event.agent != events.ROOT and not isinstance(event, events.ApprovalRequested | events.ApprovalResolved):
            return
        if event.durable:
            self.planning = after(self.planning, event)
        match event:
            case events.TextDelta() | events.ThinkingDelta() | events.PrefillProgress() | events.CallProgress():
                self._apply_stream(event, envelope.time)
            case events.ToolCallStarted() | events.ToolCallFinished() | events.RetryScheduled():
                self._apply_step(event, envelope.time)
            case events.TurnStarted() | events.TurnEnded() | events.MessageAdded() | PlanDecided():
                self._apply_turn(event, envelope.time)
            case events.ApprovalRequested():
                self.approvals[event.approval_id] = event
            case events.ApprovalResolved():
                self.approvals.pop(event.approval_id, None)
            case JobsChanged():
                self.jobs = event.jobs
            case BackgroundChanged():
                self.background = event.commands
            case _:
                self._apply_setting(event)

    def _apply_setting(self, event: events.Event) -> None:
        match event:
            case events.SessionOpened():
                self.workspace = event.workspace
            case events.SessionRenamed():
                self.title = clean_line(event.title)
            case events.ModelChanged():
                self.model, self.url, self.role = clean_line(event.model), event.url, event.role
                self.window_tokens = event.window_tokens
            case VisionChanged():
                self.is_blind = event.sees is False and not event.by
            case WaitSet():
                self.wakes = as_utc(event.until)
            case events.ModeChanged():
                self.mode = clean_line(event.mode)
            case events.SandboxSelected():
                self.sandbox = event
            case events.PlanChanged():
                self.plan = event.plan
            case events.InboxChanged():
                self.queued, self.is_queue_paused = event.queued, event.is_paused
            case events.UsageUpdated():
                self.usage = event
                self.window_tokens = event.window_tokens or self.window_tokens
            case _:
                pass

    def _apply_turn(
        self, event: events.TurnStarted | events.TurnEnded | events.MessageAdded | PlanDecided, time: datetime
    ) -> None:
        match event:
            case events.TurnStarted():
                self.is_running, self.reason, self.error, self.wakes = True, None, "", None
                self.activity = Activity(Doing.WAITING_FOR_MODEL, since=time)
            case events.TurnEnded():
                self.is_running, self.reason, self.error = False, event.reason, clean_line(event.error)
                self.activity = Activity()
                self._running_tools.clear()
            case PlanDecided():
                if self.reason is TurnReason.WAITING and self.wakes is None:
                    self.reason = TurnReason.DONE  # it was the plan that was waited for
            case events.MessageAdded():
                text = event.text.strip()
                if text:
                    self.last_line = clean_line(text.splitlines()[-1])[:LAST_LINE_CHARS]
                if event.role is Role.USER and not self.title:
                    self.title = clean_line(text.splitlines()[0] if text else "")[:LAST_LINE_CHARS]
                if self.is_running and not self._running_tools:
                    self.activity = Activity(Doing.WAITING_FOR_MODEL, since=time)

    def _apply_step(
        self, event: events.ToolCallStarted | events.ToolCallFinished | events.RetryScheduled, time: datetime
    ) -> None:
        match event:
            case events.ToolCallStarted():
                self._running_tools[event.call_id] = (clean_path(f"{event.tool}: {event.title}".rstrip(": ")), time)
            case events.ToolCallFinished():
                self._running_tools.pop(event.call_id, None)
            case events.RetryScheduled():
                reason = clean_line(event.reason)
                self.activity = Activity(Doing.RETRYING, reason, time, wait_s=event.wait_s)
                return
        if self._running_tools:
            detail, since = next(iter(self._running_tools.values()))
            self.activity = Activity(Doing.RUNNING_TOOL, detail, since)
        else:
            self.activity = Activity(Doing.WAITING_FOR_MODEL, since=time)

    def _apply_stream(
        self, event: events.TextDelta | events.ThinkingDelta | events.PrefillProgress | events.CallProgress, time: datetime
    ) -> None:
        match event:
            case events.TextDelta():
                self._enter(Doing.WRITING, time)
                self.activity.chars += len(event.text)
            case events.ThinkingDelta():
                self._enter(Doing.THINKING, time)
                self.activity.chars += len(event.text)
            case events.PrefillProgress():
                self._enter(Doing.READING, time)
                activity = self.activity
                activity.ratio, activity.queued = event.ratio, event.queued
                activity.tokens, activity.estimate_s = event.tokens or activity.tokens, event.estimate_s or activity.estimate_s
            case events.CallProgress():
                self._enter(Doing.WRITING_CALL, time)
                self.activity.detail, self.activity.chars = clean_line(event.tool), event.size_chars

    def _enter(self, doing: Doing, time: datetime) -> None:
        if self.activity.doing is not doing:
            self.activity = Activity(doing, since=time)
