"""The seams of the engine: what it needs from the outside.

A protocol is here only where a second implementation or a fake exists.  Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lmtui.core.errors import ToolError
from lmtui.core.events import Envelope, Event
from lmtui.core.hosts import ToolGate
from lmtui.core.messages import Image, ImageRef, ModelRequest, StreamChunk, ToolSet, ToolSpec
from lmtui.core.model_events import NotesAttached
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Access, MaskExpressions, Mode, Rule, Verdict
from lmtui.core.plan import Plan, StepWork
from lmtui.core.proposals import Proposal
from lmtui.core.servers import ServedModel
from lmtui.core.subagents import Report, RunTasks
from lmtui.core.tool_scopes import SkillInUse
from lmtui.core.workspace import (
    BackgroundCommands,
    CommandEffect,
    CommandLimits,
    DirEntry,
    EffectPart,
    ExecResult,
    FileChange,
    FileContent,
    GrepMatch,
    SandboxStatus,
)


class Provider(Protocol):
    """A model behind an address."""

    @property
    def url(self) -> str:
        """Return the base address, without key."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the pieces of one answer; the last is a `Completion`.  Closing the generator closes the connection.

        Raises:
            ProviderError: the request failed for good.
        """

    async def served(self, model: str) -> ServedModel | None:
        """Return what the server tells of a model (the only or the loaded one, if the name is empty), else None."""

    async def close(self) -> None:
        """Let go of the server: a session does that at its end; another request connects again."""


class SessionLog(Protocol):
    """Where a session's durable events are kept."""

    def append(self, envelope: Envelope) -> None:
        """Write one event so that it survives this process.

        Raises:
            SessionFileError: it could not be written; nothing of it is in the log.
        """

    def sync(self) -> None:
        """Force what was written to the disk, so that it survives the machine too."""

    def close(self) -> None:
        """Let go of the file."""


class Images(Protocol):
    """Where the pictures of a session's messages are kept, by content."""

    def put(self, image: Image) -> ImageRef:
        """Keep a picture; blocks (disk).

        Raises:
            SessionFileError: it cannot be kept.
        """

    def get(self, ref: ImageRef) -> Image | None:
        """Return a picture, None where it is gone; blocks (disk) where this process has not kept it itself."""


OutputSink = Callable[[str], None]
TokenCounter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state of the workspace: `id` names it, `left_out` the files it does not hold (at most 50 of `left_out_total`).

    `dropped` counts older states that went meanwhile, as the store is bounded in size and age.
    """

    id: str
    left_out: tuple[str, ...] = ()
    left_out_total: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """The states before and after an effect was kept, None where none can be kept; notes on what was merged or moved."""

    before: Snapshot | None
    after: Snapshot | None
    notes: tuple[str, ...] = ()


class Checkpoints(Protocol):
    """States of the workspace, kept outside it by content.  All methods raise `SandboxError`."""

    async def snapshot(self) -> Snapshot:
        """Keep the state of now; cheap where nothing changed."""

    async def changes(
        self, before: str, after: str, paths: Sequence[str] = (), *, is_now: bool = False
    ) -> tuple[FileChange, ...]:
        """Return the difference between two states, as far as asked for.

        With `is_now`, the second is the current state: if something that no state can store replaced a file, the file counts as
        changed, not as deleted, and is not `is_kept`.
        """

    async def read(self, snapshot: str, path: str) -> bytes | None:
        """Return a file as a state has it, None where it does not."""

    async def ignored(self) -> tuple[str, ...]:
        """Return what ignore rules keep out of every state, at most 50 names; folders end in `/`."""

    async def restore(self, source: str, paths: Sequence[str], *, expected: str, over: Sequence[str] = ()) -> None:
        """Restore files to `source` (delete those it lacks), if all of them are now as in `expected`.

        A file that is already as in `source` is fine too.  Files in `over` may now be something that no state can store.

        Raises:
            FilesChangedSince: some are not; nothing was changed.
        """


class CommandOverlay(Protocol):
    """The workspace with an overlay over it: what commands change there is not real until it is kept."""

    @property
    def sandbox(self) -> Sandbox:
        """Return the workspace for commands that run in the overlay."""

    @property
    def checkpoints(self) -> Checkpoints:
        """Return the states of the workspace as the overlay shows it; none of them can be restored."""

    async def effect(self) -> CommandEffect:
        """Return what would be different from the workspace as it was when each file was first touched.

        Raises:
            SandboxError: it cannot be seen, or too many files were touched.
        """

    async def keep_outputs(self, effect: CommandEffect, rules: Sequence[Rule]) -> tuple[CommandEffect, Sequence[str]]:
        """Make the files real that git ignores and nobody needs to be asked about; return the rest of the effect, and notes.

        These are untracked files that are new, were made so before, or have the name of a build's or a test run's output.  It
        is never a file that a rule speaks of, that may hold secrets, or that lmtui or programs outside run or obey.
        """

    async def keep(self, effect: CommandEffect, units: Collection[int] | None, rules: Sequence[Rule]) -> KeptChanges:
        """Make some units of an effect real (see `CommandEffect.chosen`), all of them with None.

        What was changed meanwhile is merged where other lines were.  The state of before is kept first.

        Raises:
            SandboxError: one of the rules denies a change, or files were changed meanwhile in the same place; nothing was
                changed then.
        """

    async def begin_call(self) -> None:
        """Note the workspace as a call sees it that follows others."""

    def note_touched(self, paths: Collection[str]) -> None:
        """Note which files the last call changed: those that are new are compared with what that call saw."""

    async def refresh(self) -> None:
        """Show the workspace as it is now: what is seen of a file that was changed below an overlay in use is not certain."""

    def outlive_kill(self, name: str) -> Path:
        """Let the next start save a patch of this name if this process is killed, and return its file."""

    async def save_patch(self, effect: CommandEffect, name: str) -> Path:
        """Write an effect as a patch of this name, and return its file."""

    async def close(self) -> None:
        """Drop what was not kept; idempotent."""


class Sandbox(Protocol):
    """The only way to the workspace: commands, files and git, all confined below its root.

    Paths are relative to the workspace (a leading `/workspace/` is taken off).  Every method raises `SandboxError` with a
    text fit for the model, and `SandboxUnavailable` where the backend has no shell.  All may be cancelled: a cancelled
    `run_command` has killed the whole process tree before it returns.
    """

    limits: CommandLimits

    @property
    def background(self) -> BackgroundCommands:
        """Return the commands that stay."""

    async def status(self) -> SandboxStatus:
        """Start the sandbox if it is not running (self-test included) and tell what it is."""

    async def run_command(
        self,
        command: str,
        *,
        timeout_s: int = 30,
        memory_mb: int = 0,
        on_output: OutputSink | None = None,
        gate: ToolGate | None = None,
        with_packages: bool = False,
    ) -> ExecResult:
        """Run a shell command in the workspace root; nothing of it is left when this returns.

        Without `memory_mb` it may use as much as `limits` say.  `with_packages`: it reaches the `package_hosts`.  `gate` is
        asked about hosts where the network is the proxy's.
        """

    async def package_hosts(self) -> Sequence[str]:
        """Return the hosts of the package indexes that the project's tools are configured for, as a question names them."""

    async def run_git(self, arguments: Sequence[str], *, writes: bool = False, timeout_s: int = 30) -> ExecResult:
        """Run git with hooks, external programs and prompts off; `writes` uses the instance that may change `.git`."""

    async def real_paths(self, paths: Sequence[str]) -> Sequence[str]:
        """Return where paths lead once symbolic links are followed; what is not there is placed in its real folder."""

    async def read_file(self, path: str, max_bytes: int = 1_048_576) -> FileContent:
        """Return a file's bytes from the start."""

    async def write_file(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> None:
        """Replace or create a file in one step, parents made, mode kept.

        `expect_sha256` guards against a change since it was read: a hash, or "" for a file that must not exist yet.
        """

    async def make_directory(self, path: str) -> bool:
        """Make a folder and its parents; False if it was there."""

    async def list_directory(self, path: str = "", depth: int = 1, max_entries: int = 1000) -> Sequence[DirEntry]:
        """List a folder, folders first, down to `depth`; `.git` and `.lmagent` are left out."""

    async def glob(self, pattern: str, max_results: int = 200) -> Sequence[str]:
        """Return files matching a glob (`**` too), ignored ones left out, newest first."""

    async def grep(
        self,
        pattern: str,
        *,
        path: str = "",
        glob: str = "",
        ignore_case: bool = False,
        is_literal: bool = False,
        context_lines: int = 0,
        max_matches: int = 200,
    ) -> Sequence[GrepMatch]:
        """Search file contents by regular expression (ripgrep's syntax where it is there)."""

    def mask(self, owner: int, expressions: MaskExpressions | None) -> None:
        """Set the files that no program may see while a session is open; None when it has closed.

        A mask of one session applies to all sessions that share the sandbox.
        """

    def unmasked(self) -> Sandbox:
        """Return the workspace as the user sees it: nothing is masked, nothing can be changed, and no command runs."""

    def revealing(self, paths: Sequence[str]) -> Sandbox:
        """Return the workspace with these secret files shown, as the user allowed; what a rule denies stays masked."""

    def fresh(self) -> Sandbox:
        """Return the same view, in which each command gets a new home and a new `/tmp`."""

    def overlay(self, *, stays: bool = False) -> CommandOverlay:
        """Return a new overlay over the workspace, for a command or (if it `stays`) for many; the caller closes it.

        Raises:
            SandboxUnavailable: there are none here.
        """

    def read_only(self) -> Sandbox:
        """Return the workspace as nothing can change it; its status tells whether commands can run there too."""

    async def close(self) -> None:
        """Stop the sandbox; nothing of it is left."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What is noted for sessions to come.

    `recall` returns the notes that join a message with some words.  It gets the notes that the conversation has, which are
    left out, whether an index of all notes is among them, and the window in tokens.  It never raises.
    """

    recall: Callable[[str, Collection[str], bool, int], Awaitable[NotesAttached | None]]


PlanChange = Callable[[Plan], None]


def no_proposal(_: Proposal) -> str:
    """Refuse a proposal where nobody can be shown one."""
    raise ToolError("no plan can be proposed here")


def no_wait(_: datetime, __: str) -> None:
    """Refuse to wait where no session continues later."""
    raise ToolError("only the main agent can wait")


@dataclass(frozen=True, slots=True)
class AgentActions:
    """What a tool may have its agent do.

    `children` has sub-agents do tasks (None: this agent may not), `report` takes what a sub-agent says at its end (None: this
    agent is not one).  `propose` shows the user a plan and returns what the model is told about that.  `wait` ends the turn
    after this call and resumes the session at a time (UTC), with a reason; it raises `UsageError` where that is too far.
    `emit` adds an event of the agent's, `followed` returns the skills that it follows.  `on_writing` tells whether a path might
    be changed without asking, `is_forbidden` whether a rule denies a command.
    """

    children: RunTasks | None = None
    report: Callable[[Report], None] | None = None
    propose: Callable[[Proposal], str] = no_proposal
    wait: Callable[[datetime, str], None] = no_wait
    emit: Callable[[Event], None] = lambda _: None
    followed: Callable[[], Sequence[SkillInUse]] = tuple
    on_writing: Callable[[str], Verdict] = lambda _: Verdict.ALLOW
    is_forbidden: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may touch while it runs.

    `seen` holds the content hash of each file as an approval showed it ("" where there was none): a tool replaces just that.
    `on_reading` tells whether a path might be read: tools leave out what must not be read, and what needs approval
    is not told by a tool that was not asked to read it.  `hunks`: only these (from 0) of the change that an approval showed
    may be applied; None is all of it.  `sees` is false if no model in use sees pictures;
    `knows` tells whether the agent knows what is in a file that it would replace.
    `step_work` is what was done on the plan step under way.  `faults` tells why a file's content would not
    parse; it is there for a model that is doubted only.
    """

    sandbox: Sandbox
    plan: Plan
    set_plan: PlanChange
    on_output: OutputSink
    now: Callable[[], datetime]
    gate: ToolGate | None = None
    seen: dict[str, str] = field(default_factory=dict)
    on_reading: Callable[[str], Verdict] = lambda _: Verdict.ALLOW
    hunks: tuple[int, ...] | None = None
    sees: bool = True
    knows: Callable[[str], bool] = lambda _: True
    faults: Callable[[str, bytes], str] | None = None
    step_work: StepWork = field(default_factory=StepWork)
    agent: AgentActions = field(default_factory=AgentActions)
    features: Offers = field(default_factory=Offers)

    @property
    def is_doubted(self) -> bool:
        """Tell whether the model is one that may leave a stub of a file, or break it."""
        return self.faults is not None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool did: `text` and `images` for the model, `summary` for one line of the log, `changes` to files."""

    text: str
    summary: str = ""
    ok: bool = True
    changes: tuple[FileChange, ...] = ()
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What an approval shows before a call runs: the exact command or the change as a unified diff, and its limits in words.

    `hunks` is how many hunks of the diff the tool can apply one by one, 0 where it is all or nothing; `parts` are what a
    command did in an overlay.
    """

    text: str
    diff: str = ""
    path: str = ""
    limits: str = ""
    hunks: int = 0
    parts: tuple[EffectPart, ...] = ()


class PreparedCall(Protocol):
    """A call whose arguments were checked."""

    @property
    def tool(self) -> str:
        """Return the tool's own name (an alias is resolved)."""

    @property
    def arguments(self) -> Mapping[str, object]:
        """Return the checked arguments."""

    @property
    def title(self) -> str:
        """Return the arguments in a few words."""

    @property
    def access(self) -> Access:
        """Return what the call does to the workspace."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return what permission rules are matched against: a command or paths; each must be allowed, one may be forbidden."""

    async def preview(self, context: ToolContext) -> Preview:
        """Return what an approval shows.

        Raises:
            ToolError: the call cannot succeed (an edit whose text is not there); there is nothing to ask about.
        """

    async def run(self, context: ToolContext) -> ToolResult:
        """Do it.

        Raises:
            ToolError: it could not be done; the text goes to the model.
            SandboxError: the same, from the sandbox.
        """


class Toolbox(Protocol):
    """The tools of one agent, in a fixed order."""

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        """Return what the model is told about the tools in a set of them.

        Those that show pictures are among them only for a model that `sees`.
        """

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        """Check one call as the model sent it.

        Raises:
            ToolError: no such tool, broken JSON, or arguments that do not fit; the text tells the model what to send.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may spend; the units are in the names, 0 means no limit."""

    max_iterations: int = 500
    max_calls_per_message: int = 16
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How approvals are decided for a session: its mode and rules, and whether anybody is there to be asked."""

    mode: Mode = Mode.NORMAL
    rules: tuple[Rule, ...] = field(default=())
    is_attended: bool = True
