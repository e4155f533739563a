"""What is known of one session, reduced from its events.  No widgets, no clock: times are the events' own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted, BackgroundChanged, PlanDecided, PlanProposed, WaitSet
from lmtui.core.budgets import ReportWritten
from lmtui.core.events import ROOT, Envelope, FilesChanged, FilesRestored, TurnReason, WaitingChanged, WaitingTask, step_id
from lmtui.core.messages import Role
from lmtui.core.model_events import ModelLoaded, ModelLoading, VisionChanged
from lmtui.core.plan import Plan
from lmtui.core.plan_mode import PlanMode, after
from lmtui.core.sanitize import last_words, sanitize_line, sanitize_path
from lmtui.core.times import as_utc
from lmtui.core.verification import CheckOutcome, CheckRan, CheckStarted, GoalChanged, GoalState, goal_words
from lmtui.core.workspace import BackgroundCommand, FileChange, FileChangeKind
from lmtui.tui.wording import doing_words, duration_text, tokens_text

_STATES = {"done": "done", "partial": "partial", "limit": "partial", "unfinished": "partial"}


@dataclass(slots=True)
class Subagent:
    """A sub-agent.  `state` is working, waits, done, partial or failed; `doing` is its work or report.

    `tokens` are those that it had read and written, `elapsed_s` is up to the last event of any agent.
    """

    id: str
    parent: str
    title: str
    state: str = "working"
    doing: str = ""
    steps: int = 0
    tokens: int = 0
    elapsed_s: float = 0.0
    began: datetime | None = None

    @property
    def name(self) -> str:
        """Return what it is called in a list: a number with the first word of its task, or `main`."""
        name = agent_name(self.id)
        return f"{name} {self.title.partition(' ')[0]}".strip() if name.isdecimal() else name


def agent_name(agent: str) -> str:
    """Return the id of an agent as it is shown."""
    return "main" if agent == ROOT else sanitize_line(agent.removeprefix("agent_"))


class Agents:
    """Every sub-agent of a session in the order in which they began, and the main one."""

    def __init__(self) -> None:
        self.by_id: dict[str, Subagent] = {}
        self.main = Subagent(ROOT, "", "", state="done")
        self._asked: dict[str, str] = {}

    def apply(self, envelope: Envelope) -> None:
        """Take in one event."""
        event, time = envelope.event, envelope.time
        match event:
            case AgentStarted(agent=name):
                self.by_id[name] = Subagent(name, event.parent, sanitize_line(event.title), began=time)
            case events.TurnStarted(agent=name) if name == ROOT:
                self.main = Subagent(ROOT, "", "", began=time)
            case _:
                self._go_on(event, time)

    def _go_on(self, event: events.Event, time: datetime) -> None:
        known = self._asked.pop(event.approval_id, "") if isinstance(event, events.ApprovalResolved) else event.agent
        for running in (self.main, *self.by_id.values()):
            if running.state in ("working", "waits") and running.began is not None:
                running.elapsed_s = (time - running.began).total_seconds()
        agent = self.main if known == ROOT else self.by_id.get(known)
        if agent is None:
            return
        match event:
            case AgentFinished():
                agent.state = _STATES.get(event.outcome, "failed")
                agent.doing = sanitize_line((event.summary or event.outcome).strip().partition("\n")[0])
                agent.elapsed_s = event.elapsed_s or agent.elapsed_s
            case events.TurnEnded():
                agent.state = "done"
            case events.ApprovalRequested():
                self._asked[event.approval_id] = agent.id
                agent.state = "waits"
            case events.ApprovalResolved() if agent.state == "waits":
                agent.state = "working"
            case events.ToolCallStarted():
                agent.doing = sanitize_path(doing_words(event.tool, event.title))
            case events.MessageAdded(role=Role.ASSISTANT):
                agent.steps += 1
            case events.UsageUpdated(usage=usage):
                agent.tokens += usage.prompt_tokens - usage.cached_tokens + usage.completion_tokens

    @property
    def are_several_at_work(self) -> bool:
        """Tell whether there are two sub-agents or more, and not all have ended."""
        return len(self.by_id) > 1 and any(agent.state in ("working", "waits") for agent in self.by_id.values())


_OPPOSITE = {
    FileChangeKind.ADDED: FileChangeKind.DELETED,
    FileChangeKind.DELETED: FileChangeKind.ADDED,
    FileChangeKind.MODIFIED: FileChangeKind.MODIFIED,
}


class ChangedFiles:
    """The changes by file."""

    def __init__(self) -> None:
        self.net: dict[str, FileChange] = {}
        self._steps: dict[str, list[tuple[str, FileChange]]] = {}
        self._undone: list[tuple[str, FileChange]] = []

    def apply(self, envelope: Envelope) -> None:
        """Take in one event."""
        event, own_id = envelope.event, step_id(envelope.seq)
        if not isinstance(event, FilesChanged | FilesRestored):
            return
        recorded = {change.path: change for change in event.changes}
        changes = {path: recorded.get(path, FileChange(path, FileChangeKind.MODIFIED)) for path in event.files}
        match event:
            case FilesChanged(is_tried=True):
                return
            case FilesChanged():
                for path, change in changes.items():
                    self._steps.setdefault(path, []).append((own_id, change))
                    self.net[path] = _join(self.net[path], change) if path in self.net else change
                return
            case FilesRestored(action="redo"):
                self._bring_back(event.calls, changes)
            case FilesRestored(action="restore"):
                self._put_back(changes, own_id)
            case FilesRestored():
                self._take_away(event.calls, changes, own_id)
        for path in changes:
            self.net.pop(path, None)
            if steps := self._steps.get(path):
                self.net[path] = reduce(_join, (change for _, change in steps))

    def _take_away(self, ids: tuple[str, ...], changes: Mapping[str, FileChange], own_id: str) -> None:
        for path, change in changes.items():
            steps = self._steps.get(path, [])
            taken = [step for step in steps if step[0] in ids]
            self._undone += taken
            self._steps[path] = [step for step in steps if step[0] not in ids]
            if not taken:
                self._put_back({path: change}, own_id)

    def _bring_back(self, ids: tuple[str, ...], changes: Mapping[str, FileChange]) -> None:
        for path in changes:
            back = [step for step in self._undone if step[0] in ids and step[1].path == path]
            self._undone = [step for step in self._undone if step not in back]
            self._steps.setdefault(path, []).extend(back)

    def _put_back(self, changes: Mapping[str, FileChange], own_id: str) -> None:
        """Drop the latest changes that a restored file exactly undoes; what undoes only a part of them is one more change."""
        for path, change in changes.items():
            steps = self._steps.setdefault(path, [])
            for at in range(len(steps) - 1, -1, -1):
                if _undoes(change, [step for _, step in steps[at:]]):
                    del steps[at:]
                    break
            else:
                steps.append((own_id, change))


def _undoes(change: FileChange, steps: list[FileChange]) -> bool:
    whole = reduce(_join, steps)
    counts = (whole.removed_lines, whole.added_lines)
    return change.kind is _OPPOSITE[whole.kind] and (change.added_lines, change.removed_lines) == counts


def _join(first: FileChange, then: FileChange) -> FileChange:
    """Return two changes of one file as one; an added file stays added until it is deleted."""
    kind = then.kind
    if first.kind is FileChangeKind.ADDED and kind is FileChangeKind.MODIFIED:
        kind = FileChangeKind.ADDED
    joined = "\n".join(diff.rstrip("\n") for diff in (first.diff, then.diff) if diff)
    return FileChange(
        then.path,
        kind,
        first.added_lines + then.added_lines,
        first.removed_lines + then.removed_lines,
        joined and joined + "\n",
    )


LAST_LINE_CHARS = 120


WAITING_FOR_MODEL = "waiting for the model"
_CALL_WORDS = {"write": "writing a file", "edit": "writing an edit", "shell": "writing a command"}


@dataclass(slots=True)
class Activity:
    """What continues: `doing` in a word or two (`text` says it better), since when, how much of an answer was written.

    Of a retry: after what time.  Of a prompt that is read: how many tokens, about how long.
    """

    doing: str = ""
    text: str = ""
    since: datetime | None = None
    chars: int = 0
    wait_s: float = 0.0
    tokens: int = 0
    estimate_s: float = 0.0

    def read(self, event: events.PrefillProgress) -> None:
        """Say how far the model is with its prompt, or how long that takes, as far as it is known."""
        self.tokens, self.estimate_s = event.tokens or self.tokens, event.estimate_s or self.estimate_s
        about = f", about {duration_text(self.estimate_s)}" if self.estimate_s >= 1 else ""
        if event.queued > 0:
            self.text = f"waiting for the server: {event.queued} before this"
        elif event.ratio > 0 or (event.ratio == 0 and not self.estimate_s):
            self.text = f"reading prompt {event.ratio * 100:.0f} %"
        else:
            self.text = f"reading {tokens_text(self.tokens)} tokens{about}" if self.tokens else "reading prompt"


@dataclass(slots=True)
class SessionModel:
    """The model that a session asks, and its server.  `is_blind`: it is known to read no images."""

    name: str = ""
    default_name: str = ""
    role: str = ""
    url: str = ""
    window_tokens: int = 0
    is_blind: bool = False

    def apply(self, event: events.Event) -> None:
        """Take in one event."""
        match event:
            case events.ModelChanged():
                self.name, self.url, self.role = sanitize_line(event.model), event.url, event.role
                self.default_name = sanitize_line(event.default_model)
                self.window_tokens = event.window_tokens
            case VisionChanged():
                self.is_blind = event.sees is False and not event.by
            case events.UsageUpdated():
                self.window_tokens = event.window_tokens or self.window_tokens


@dataclass(slots=True)
class TurnProgress:
    """Whether a turn is under way, what it does, how the last one ended, and when a session that waits continues."""

    is_running: bool = False
    activity: Activity = field(default_factory=Activity)
    reason: TurnReason | None = None
    error: str = ""
    doubt: str = ""
    goal: str = ""
    wakes: datetime | None = None
    checks: dict[str, CheckOutcome] = field(default_factory=dict)  # the last one of each rung
    _running_tools: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    _is_own: bool = False  # a command of the user's own runs, which says nothing of the work
    _before: tuple[TurnReason | None, str, str] = (None, "", "")

    def apply(self, event: events.Event, time: datetime) -> None:
        """Take in one event."""
        match event:
            case events.TextDelta():
                self._enter("writing", time)
                self.activity.chars += len(event.text)
            case events.ThinkingDelta():
                self._enter("thinking", time)
            case events.PrefillProgress():
                self._enter("reading", time)
                self.activity.read(event)
            case events.CallProgress():
                self._enter("writing a call", time)
                self.activity.text = _CALL_WORDS.get(event.tool, f"writing a call of {sanitize_line(event.tool)}")
            case events.ToolCallStarted():
                self._is_own = event.by.startswith("user")
                words = sanitize_path(doing_words(event.tool, event.title))
                self._running_tools[event.call_id] = words, time
                self._resume(time)
            case events.ToolCallFinished():
                self._running_tools.pop(event.call_id, None)
                self._resume(time)
            case ModelLoading() if self.is_running:
                done = f" · {event.ratio:.0%}" if 0 <= event.ratio < 1 else ""
                self.activity = Activity("loading", sanitize_line(event.text) + done, time)
            case ModelLoaded() if self.is_running:
                self._resume(time)
            case events.RetryScheduled():
                self.activity = Activity("retrying", sanitize_line(event.reason), time, wait_s=event.wait_s)
            case _:
                self._apply_turn(event, time)

    def _apply_turn(self, event: events.Event, time: datetime) -> None:
        match event:
            case events.TurnStarted():
                self._before, self._is_own = (self.reason, self.error, self.doubt), False
                self.checks.clear()
                self.is_running, self.reason, self.error, self.wakes = True, None, "", None
                self.activity = Activity(WAITING_FOR_MODEL, since=time)
            case events.TurnEnded():
                self.is_running, self.reason, self.error = False, event.reason, sanitize_line(event.error)
                self.doubt = event.doubt
                if self._is_own and self._before[0] is not None:
                    self.reason, self.error, self.doubt = self._before
                self.activity = Activity()
                self._running_tools.clear()
            case FilesRestored() if not self.is_running and self.doubt:
                self.doubt = ""  # no check is about the files as they are now
                self.reason = TurnReason.INTERRUPTED if self.reason is TurnReason.UNFINISHED else self.reason
            case CheckRan(decides=True, outcome=outcome) if not self.is_running and self.doubt and outcome.is_green:
                self.doubt, self.reason = "", TurnReason.DONE
            case PlanDecided() if self.reason is TurnReason.WAITING and self.wakes is None:
                self.reason = TurnReason.DONE  # it was the plan that was waited for
            case WaitSet():
                self.wakes = as_utc(event.until)
            case GoalChanged(command=command, state=state):
                is_open = state in (GoalState.PAUSED, GoalState.WAITING, GoalState.ACTIVE) and bool(command)
                self.goal = goal_words(command, state) if is_open else ""
            case CheckStarted(command=command) if self.is_running:
                self.activity = Activity("checking", f"Checking {sanitize_line(command)}", time)
            case CheckRan(rung=rung, outcome=outcome) if self.is_running:
                self.checks[rung.value] = outcome
                self._resume(time)
            case events.MessageAdded() if self.is_running and not self._running_tools:
                self.activity = Activity(WAITING_FOR_MODEL, since=time)

    def _resume(self, time: datetime) -> None:
        if self._running_tools:
            detail, since = next(iter(self._running_tools.values()))
            self.activity = Activity("running", detail, since)
        else:
            self.activity = Activity(WAITING_FOR_MODEL, since=time)

    def _enter(self, doing: str, time: datetime) -> None:
        if self.activity.doing != doing:
            self.activity = Activity(doing, since=time)


@dataclass(slots=True)
class SessionWork:
    """What a session plans, delegates, runs outside its turns, and has changed."""

    plan: Plan = field(default_factory=Plan)
    planning: PlanMode = field(default_factory=PlanMode)
    agents: Agents = field(default_factory=Agents)
    jobs: tuple[WaitingTask, ...] = ()
    background: tuple[BackgroundCommand, ...] = ()
    changed_files: ChangedFiles = field(default_factory=ChangedFiles)
    unmerged: int = 0  # unmerged files of try mode

    def apply(self, event: events.Event) -> None:
        """Take in one event of the root agent."""
        if event.durable:
            self.planning = after(self.planning, event)
        match event:
            case events.PlanChanged():
                self.plan = event.plan
            case WaitingChanged():
                self.jobs = event.jobs
            case BackgroundChanged():
                self.background = event.commands
            case events.OverlayChanged():
                self.unmerged = event.files


@dataclass(slots=True)
class SessionState:
    """The state of a session as panels around the transcript show it."""

    title: str = ""
    workspace: str = ""
    mode: str = ""
    sandbox: events.SandboxSelected | None = None
    usage: events.UsageUpdated | None = None
    last_line: str = ""
    warning: str = ""
    queued: tuple[str, ...] = ()
    next_step: tuple[int, ...] = ()
    is_queue_paused: bool = False
    approvals: dict[str, events.ApprovalRequested] = field(default_factory=dict)
    model: SessionModel = field(default_factory=SessionModel)
    turn: TurnProgress = field(default_factory=TurnProgress)
    work: SessionWork = field(default_factory=SessionWork)

    @property
    def changes(self) -> Mapping[str, FileChange]:
        return self.work.changed_files.net

    @property
    def has_begun(self) -> bool:
        """Tell whether something was sent in the session."""
        is_planned = bool(self.work.plan.steps or self.work.agents.by_id)
        return bool(self.last_line) or self.turn.is_running or self.turn.reason is not None or is_planned

    @property
    def waits(self) -> bool:
        """Tell whether the session waits for its user: for an approval, or an answer to its plan."""
        return bool(self.approvals) or (self.proposal is not None and not self.turn.is_running)

    @property
    def questions(self) -> tuple[object, ...]:
        """Return what the user is asked now: the ids of the approvals and the plan."""
        return (*self.approvals, self.proposal)

    @property
    def proposal(self) -> PlanProposed | None:
        """Return the plan that waits for an answer."""
        return self.work.planning.asked

    def apply(self, envelope: Envelope) -> None:
        """Take in one event."""
        event = envelope.event
        self.work.changed_files.apply(envelope)
        self.work.agents.apply(envelope)
        match event:
            case events.ApprovalRequested():
                self.approvals[event.approval_id] = event
            case events.ApprovalResolved():
                self.approvals.pop(event.approval_id, None)
            case _ if event.agent == events.ROOT:
                self.turn.apply(event, envelope.time)
                self.model.apply(event)
                self._apply_own(event)
        if event.agent == events.ROOT or isinstance(event, events.ApprovalRequested | events.ApprovalResolved):
            self.work.apply(event)

    def _apply_own(self, event: events.Event) -> None:
        match event:
            case events.SessionOpened():
                self.workspace = event.workspace
            case events.SessionRenamed():
                self.title = sanitize_line(event.title)
            case events.ModeChanged():
                self.mode = sanitize_line(event.mode)
            case events.SandboxSelected():
                self.sandbox = event
            case events.InboxChanged():
                self.queued, self.is_queue_paused, self.next_step = event.queued, event.is_paused, event.next_step
            case events.UsageUpdated():
                self.usage = event
            case ReportWritten():
                self.last_line = self.last_line or "Report"
            case events.Notice() if event.level is not events.Level.INFO:
                self.warning = sanitize_line(event.text)
            case events.MessageAdded(text=text) if text.strip():
                self.last_line = last_words(text)[:LAST_LINE_CHARS]
                if event.role is Role.USER and not self.title:
                    self.title = sanitize_line(text.strip().splitlines()[0])[:LAST_LINE_CHARS]
