"""Everything that happens in a session, as values.  The engine emits them in one order; every front end only reads them.

An event with `durable` false is shown but not stored.  Promises, each held by a test:
`TurnStarted` precedes and `TurnEnded` follows everything of its turn, also on cancel and on error; every `ToolCallStarted`
has exactly one `ToolCallFinished`, every `ApprovalRequested` exactly one `ApprovalResolved`; ids tie the pairs.
`kind` is the event's name in the log and in `--output stream-json`: a class is renamed only with its old name as its `kind`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from lmtui.core.messages import ImageRef, Role, ToolCall, Usage
from lmtui.core.plan import Plan
from lmtui.core.workspace import EffectPart, FileChange

ROOT = "root"


class TurnReason(StrEnum):
    """How a turn ended."""

    DONE = "done"
    WAITING = "waiting"
    BLOCKED = "blocked"
    LIMIT = "limit"
    UNFINISHED = "unfinished"
    INTERRUPTED = "interrupted"
    ERROR = "error"

    @property
    def words(self) -> str:
        """Return the reason for users: a turn also ends as `limit` if the model repeats itself."""
        return "stopped early" if self is TurnReason.LIMIT else str(self)


class Verified(StrEnum):
    """What the changes of a turn are worth: checked and right, checked and wrong, not checked, or there are none."""

    GREEN = "green"
    RED = "red"
    UNVERIFIED = "unverified"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """A check of a turn: its command, exit code (-1 if it could not be run, 124 after a timeout) and seconds."""

    command: str
    exit_code: int
    seconds: float


class Outcome(StrEnum):
    """The answer to an approval."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    TRY = "try"
    NO = "no"


class Level(StrEnum):
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A row in the list of tool calls of what is not a call: `what` ran, on what (`title`), and how it ended."""

    what: str
    title: str
    is_ok: bool
    elapsed_ms: int
    decision: str = ""
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base of all events.  `agent` is the id of the agent it belongs to; the root agent is `root`."""

    kind: ClassVar[str] = ""
    durable: ClassVar[bool] = True

    agent: str = ROOT

    def __init_subclass__(cls) -> None:
        """Name a type as its class, such as `turn_ended`, unless it or its base has a name."""
        cls.kind = cls.kind or re.sub(r"\B(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def line(self) -> str:
        """Return the line that the user reads about it, where it brings one itself; empty for none."""
        return ""

    @property
    def row(self) -> ListedRun | None:
        """Return its row in the list of tool calls, where it has one without being a call."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpened(Event):
    """The first event of a log.  `workspace` is an absolute path, `version` the lmtui that wrote it.

    A fork names the session that it was made from as `parent`; its events up to `parent_seq` are copies of that one's.
    `is_unattended`: it was opened by a job, for an attempt or a part of a pipeline, or for another program.
    """

    workspace: str
    version: str
    parent: str = ""
    parent_seq: int = 0
    is_unattended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRenamed(Event):
    """The session has a new title (the first task, or what the user typed)."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChanged(Event):
    """Requests go to another model or server, with a `role` (planner, vision) only as long as there is work for that role.

    An empty `model` is the server's own default, which `default_model` names once the server has said it.  `window_tokens` 0 is
    unknown.  `is_for_turn`: only until the turn ends.
    """

    model: str
    url: str
    window_tokens: int = 0
    role: str = ""
    is_for_turn: bool = False
    default_model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged(Event):
    """The permission mode is another; `mode` is one of manual, normal, auto, try, plan."""

    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSelected(Event):
    """Which sandbox runs the tools.  `backend` is docker, podman, bubblewrap, landlock or process.

    `network` is none, on, or the proxy's state in words; `text` says all of it in words.

    `is_weaker` tells that it is not what was asked for, or isolates less than the best tier; `reason` says why.
    `asks_each_command`: it isolates so little that every command is asked about.  `has_overlays`: commands can run in an
    overlay over the workspace.
    """

    backend: str
    network: str
    text: str
    is_weaker: bool = False
    reason: str = ""
    asks_each_command: bool = False
    has_overlays: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted(Event):
    """A turn begins."""

    turn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """A turn is over.  The fields are those of `--output json`; `status` repeats `reason`, `elapsed_s` is wall time.

    `fault` says how the model server failed (a word of `core.errors.Fault`), where that ended it.  `verified` is empty in logs
    from before there were checks.
    """

    turn_id: str
    reason: TurnReason
    status: str = ""
    exit_code: int = 0
    text: str = ""
    files_changed: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    elapsed_s: float = 0.0
    sandbox: str = ""
    error: str = ""
    fault: str = ""
    verified: str = ""
    checks: tuple[CheckSummary, ...] = ()

    @property
    def doubt(self) -> str:
        """Return what is not right with its changes in two words, empty if all is well or no check exists."""
        if self.verified == Verified.RED:
            return "checks fail"
        return "not verified" if self.verified == Verified.UNVERIFIED and self.checks else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAdded(Event):
    """A user or assistant message joined the conversation (tool results join with `ToolCallFinished`).

    `attached` is what the model gets behind the text and the user does not read again: the files that it mentions.
    `is_from_file`: the text is that of a slash command's file or of a server's prompt, not what the user typed.  `typed` is
    the part that the user typed, without attached documents (None in logs of earlier versions).
    """

    role: Role
    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    turn_id: str = ""
    thinking_s: float = 0.0
    attached: str = ""
    images: tuple[ImageRef, ...] = ()
    is_from_file: bool = False
    typed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    """Some more of the answer being written."""

    durable: ClassVar[bool] = False
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta(Event):
    """Some more of the thinking being written."""

    durable: ClassVar[bool] = False
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillProgress(Event):
    """The model reads the prompt.  `ratio` is 0 to 1, or -1 where the server does not tell.

    `tokens` is how many it has to read again and `estimate_s` how long that takes, as far as that is known from before (0).
    `queued` is how many other requests the server answers first, -1 once it has begun with this one.
    """

    durable: ClassVar[bool] = False
    ratio: float = -1.0
    tokens: int = 0
    estimate_s: float = 0.0
    queued: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress(Event):
    """The model writes a tool call; `size_chars` of its arguments have arrived."""

    durable: ClassVar[bool] = False
    tool: str
    size_chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled(Event):
    """The request failed in a way that passes and is sent again after `wait_s`; what was streamed before is void."""

    durable: ClassVar[bool] = False
    attempt: int
    attempts: int
    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted(Event):
    """A tool call is dealt with: checked, asked about, run.  `title` is its arguments in a few words (a path, a command).

    `by` is empty for the model's calls, `user` for a command of the user's own, `user_alone` for one that the model is not
    told of, `file` for one of a slash command's file, `mcp` for one of another program (`lmtui mcp serve`).  `recovered` is the
    shape in which the call was found where the model did not make it as it was told to.
    """

    call_id: str
    tool: str
    arguments: dict[str, object]
    title: str = ""
    turn_id: str = ""
    by: str = ""
    recovered: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutputDelta(Event):
    """Some more output of a running command, cleaned of control sequences."""

    durable: ClassVar[bool] = False
    call_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFinished(Event):
    """A tool call is over.  `result` is what the model gets, `summary` what one line of the log shows (`+9 −2`, `exit 1`).

    `decision` says who let it run or refused it: `mode`, `rule`, `hook`, `once`, `session`, `always`, `no`, or is empty.
    `rule` is the rule that decided, `why` the reason in words; `images` are pictures that the model gets with the result.
    """

    call_id: str
    tool: str
    ok: bool
    result: str
    elapsed_ms: int
    summary: str = ""
    decision: str = ""
    rule: str = ""
    why: str = ""
    images: tuple[ImageRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Event):
    """Somebody must decide.  `text` is exactly what would run or change; `diff` (unified) is there for file changes.

    `why` says which rule or mode asks; `suggested_rule` is what "this session" or "always" would grant, `offered_rules` what
    may be granted instead, the narrowest first.  `cwd`, `sandbox` and `limits` say in words under which conditions it runs;
    `uncovered` are the parts of a command that no rule covers, `commands` how many it has (0 where that is not
    known), `digest` is the SHA-256 (hex) of what was shown.  `hunks` is how many hunks of the diff can be answered one by one,
    0 where it is all or nothing.  `can_try`: the command can run in an overlay first, and its effect is asked about then.
    `parts` are the files of an effect, with their hunks numbered consecutively; `limits` says how the command ended.
    """

    approval_id: str
    call_id: str
    tool: str
    text: str
    diff: str = ""
    path: str = ""
    why: str = ""
    suggested_rule: str = ""
    offered_rules: tuple[str, ...] = ()
    cwd: str = ""
    sandbox: str = ""
    limits: str = ""
    uncovered: tuple[str, ...] = ()
    commands: int = 0
    digest: str = ""
    hunks: int = 0
    can_try: bool = False
    parts: tuple[EffectPart, ...] = ()

    def with_network(self, sandbox: str) -> str:
        """Return the words for a sandbox; `no network` does not hold for what is to reach hosts."""
        if self.tool in ("network", "fetch", "web_search"):
            return sandbox.replace("no network", "asks for each host")
        has_hosts = self.tool == "shell" and "; " in self.limits
        return sandbox.replace("no network", "network for this command") if has_hosts else sandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResolved(Event):
    """Somebody decided.  `by` is user, headless, interrupt or a client of the host; `rule` is what was granted.

    `feedback` goes to the model.  `scope` says how far a grant reaches: session, workspace or user.  `edited` is the command
    that the user put in place of the one that was asked about.  `hunks` are those (from 0) of a change that were accepted,
    None where all or none were.  `elapsed_ms` is how long the question was open.
    """

    approval_id: str
    outcome: Outcome
    rule: str = ""
    by: str = "user"
    feedback: str = ""
    scope: str = ""
    edited: str = ""
    elapsed_ms: int = 0
    hunks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRevoked(Event):
    """A rule does not hold any more; `effect` is what it said (allow, ask or deny)."""

    rule: str
    effect: str = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChanged(Event):
    """The plan or the todos changed; `plan` is the whole new value."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxChanged(Event):
    """What the user typed while the agent worked and that has not been taken up yet; commands begin with `!`.

    `is_paused`: the user stopped the agent, and what waits continues only at their word.  `kinds` says what each of `queued` is
    where its text does not: `reminder` (of lmtui's own), or what no log gives back: `call`, `file` (a command's), `pictures`.
    `next_step` are the numbers of those that go to the model before its next step.
    """

    queued: tuple[str, ...] = ()
    is_paused: bool = False
    kinds: tuple[str, ...] = ()
    next_step: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageUpdated(Event):
    """What the last request cost.  Rates count decode time only; 0 is unknown.  `is_estimate`: the server did not say.

    The prompt is `reused_tokens` from the server's cache, `reread_tokens` that were sent before and read again, and the rest,
    which is new; `is_cache_told` says that the server told so, else it is inferred.  `miss` names why something was read again.
    `read_s` is how long the reading took, `turn_id` the turn that it was for.  `model` is the one that was asked, empty for the
    server's own default; `elapsed_s` is from sending the request to the end of the answer.
    """

    usage: Usage
    window_tokens: int = 0
    tokens_per_s: float = 0.0
    first_token_s: float = 0.0
    is_estimate: bool = False
    reused_tokens: int = 0
    reread_tokens: int = 0
    is_cache_told: bool = False
    miss: str = ""
    read_s: float = 0.0
    turn_id: str = ""
    model: str = ""
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Event):
    """Something the user should know; `text` says what to do about it."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """An event with its place: `seq` counts from 1 within a session, `time` is UTC with zone."""

    seq: int
    time: datetime
    session: str
    event: Event


def step_id(seq: int) -> str:
    """Return the id of the step that the event with this place in its session tells of."""
    return f"step_{seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged(Event):
    """Files of the workspace changed through a tool call.  `files` are their paths, `changes` says more of each.

    `before` and `after` are the checkpoints around the call, empty where none could be made: then it cannot be undone.
    `is_tried`: they changed only in the overlay of try mode.
    """

    call_id: str
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()
    before: str = ""
    after: str = ""
    is_tried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayChanged(Event):
    """The unmerged changes in the overlay of try mode are others.  `files` is how many files are not merged.

    `patch` is the file to which they were saved when the session was closed; `kept_as` is the one to which the next start
    saves them if lmtui is killed.
    """

    files: int
    patch: str = ""
    kept_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCreated(Event):
    """The state of the workspace was kept before a tool call that may change files.

    `checkpoint` is its id (the hash of a git tree), `left_out` names files that it does not hold (too large, or repositories
    of their own), at most 50 of `left_out_total`.
    """

    call_id: str
    checkpoint: str
    left_out: tuple[str, ...] = ()
    left_out_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRestored(Event):
    """The user put files back.  `action` is undo, redo, restore or rewind; `calls` are the steps it is about (`step_id`)."""

    action: str
    calls: tuple[str, ...]
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound(Event):
    """The conversation continues from before turn `turn_id`: it and what came after it is no longer sent to the model."""

    turn_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReached(Event):
    """A command reached a host of the internet through the proxy, or with `why_not` was kept from it."""

    call_id: str
    host: str
    sent_bytes: int = 0
    received_bytes: int = 0
    why_not: str = ""


def pending_approvals(history: Sequence[Envelope]) -> Sequence[Envelope]:
    """Return the questions that wait for an answer, oldest first; all of them are of the turn that is running."""
    resolved: set[str] = set()
    found: list[Envelope] = []
    for envelope in reversed(history):
        match envelope.event:
            case ApprovalResolved(approval_id=approval_id):
                resolved.add(approval_id)
            case ApprovalRequested(approval_id=approval_id) if approval_id not in resolved:
                found.append(envelope)
            case TurnStarted(agent=agent) if agent == ROOT:
                break
    return found[::-1]


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task that waits for its time; `schedule` says when, in words, `next_time` (UTC) is None where it is paused."""

    id: str
    title: str
    schedule: str = ""
    next_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingChanged(Event):
    """The tasks that wait for their time are others; `jobs` are all of the workspace.  Shown, not stored."""

    kind: ClassVar[str] = "jobs_changed"
    durable: ClassVar[bool] = False
    jobs: tuple[WaitingTask, ...] = ()
