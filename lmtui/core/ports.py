"""The seams: what the engine needs from the outside, and what front ends may ask of a session.

A protocol stands here only where a second implementation or a fake exists.  Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lmtui.core.events import Envelope, FileChange, Outcome
from lmtui.core.messages import ModelPiece, ModelRequest, ToolSpec
from lmtui.core.permissions import Access, Mode, Rule
from lmtui.core.plan import Plan
from lmtui.core.workspace import DirEntry, ExecResult, FileContent, GrepMatch, SandboxStatus

Subscriber = Callable[[Envelope], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer to an approval.  `feedback` goes to the model with a no; `rule` replaces the suggested one."""

    outcome: Outcome
    feedback: str = ""
    rule: str = ""


class Session(Protocol):
    """One conversation with one agent in one workspace.  All methods are called on the event loop and return at once."""

    @property
    def id(self) -> str:
        """Return the session's id, `YYYYMMDD_HHMMSS_xxxxxx`."""

    @property
    def is_running(self) -> bool:
        """Tell whether a turn is under way."""

    @property
    def mode(self) -> Mode:
        """Return the permission mode."""

    def history(self) -> Sequence[Envelope]:
        """Return every durable event so far, oldest first.  Applying them draws what was drawn live."""

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each later event, in order, on the event loop; the returned function ends it."""

    def submit(self, text: str) -> None:
        """Take up a task: start a turn, or queue it behind the one that runs."""

    def steer(self, text: str) -> None:
        """Say something that goes in before the next step of the running turn (or starts one)."""

    def drop_queued(self, index: int) -> str:
        """Take a queued text back and return it."""

    def interrupt(self) -> None:
        """Stop the running turn: close the stream, kill the running command; the session goes on."""

    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer an open approval; one that is already resolved is ignored."""

    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode from the next call on."""

    def set_model(self, model: str) -> None:
        """Change the model from the next request on."""

    def rename(self, title: str) -> None:
        """Give the session a title."""

    async def wait_idle(self) -> None:
        """Wait until no turn runs and nothing is queued."""

    async def close(self) -> None:
        """Interrupt what runs, write what is due and let go of the log; idempotent."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session as a list shows it.  `state` is writing, waits, done, interrupted, error, limit, blocked or new."""

    id: str
    title: str
    state: str
    model: str
    created: datetime
    updated: datetime
    changed_files: int
    last_line: str
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers.  `window_tokens` 0 is unknown; `is_loaded` None where the server does not say."""

    name: str
    window_tokens: int = 0
    is_loaded: bool | None = None
    has_tools: bool | None = None
    has_vision: bool | None = None


@dataclass(frozen=True, slots=True)
class ServerFound:
    """A model server that answered: `kind` is LM Studio, Ollama, llama.cpp, vLLM or OpenAI-compatible."""

    kind: str
    url: str
    models: tuple[ServedModel, ...]
    note: str = ""


class SessionHost(Protocol):
    """What a front end needs beside sessions: which there are, opening one, finding servers, looking at files."""

    @property
    def workspace(self) -> Path:
        """Return the folder that the agents work in."""

    @property
    def setup_note(self) -> str:
        """Return why no session can be opened yet (no model server chosen), else an empty string."""

    def sessions(self, search: str = "", limit: int = 50) -> Sequence[SessionSummary]:
        """Return the workspace's sessions, newest first; with `search`, those whose text has all its words.  Blocks (disk)."""

    async def new_session(self) -> Session:
        """Open a fresh session."""

    async def open_session(self, session_id: str) -> Session:
        """Open an earlier session by its id, or a unique end of it; one that is open already is returned as it is."""

    async def delete_session(self, session_id: str) -> None:
        """Delete a session's log; an open one is closed first."""

    async def find_servers(self) -> Sequence[ServerFound]:
        """Look for model servers on the usual ports and where the settings point; never loads a model."""

    async def use_server(self, url: str, model: str) -> None:
        """Send the requests of sessions opened from now on to this server, and keep it as the user's choice."""

    async def start_demo(self) -> None:
        """Start the built-in scripted server on a fresh demo folder and make it the server in use."""

    async def list_directory(self, path: str) -> Sequence[DirEntry]:
        """List one folder of the workspace, folders first; `""` is the root."""

    async def read_file(self, path: str) -> bytes:
        """Return the first megabyte of a file of the workspace.

        Raises:
            SandboxError: it cannot be read; the text says why.
        """

    async def close(self) -> None:
        """Close every session and sandbox."""


# -- what the engine uses ----------------------------------------------------------------------------------------------


class Provider(Protocol):
    """A model behind an address."""

    @property
    def url(self) -> str:
        """Return the base address, without key."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Yield the pieces of one answer; the last is a `Completion`.  Closing the generator closes the connection.

        Raises:
            ProviderError: the request failed for good.
        """

    async def window_tokens(self, model: str) -> int:
        """Return the window that is really served for a model, 0 where the server does not tell."""

    async def close(self) -> None:
        """Close the connections."""


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


OutputSink = Callable[[str], None]


class Sandbox(Protocol):
    """The only way to the workspace: commands, files and git, all confined below its root.

    Paths are relative to the workspace (a leading `/workspace/` is taken off).  Every method raises `SandboxError` with a
    text fit for the model, and `SandboxUnavailable` where the backend has no shell.  All may be cancelled: a cancelled
    `run_command` has killed the whole process tree before it returns.
    """

    async def status(self) -> SandboxStatus:
        """Start the sandbox if it is not running (self-test included) and tell what it is."""

    async def run_command(
        self, command: str, *, timeout_s: int = 30, memory_mb: int = 512, on_output: OutputSink | None = None
    ) -> ExecResult:
        """Run a shell command in the workspace root; nothing of it is left when this returns."""

    async def run_git(self, arguments: Sequence[str], *, writes: bool = False, timeout_s: int = 30) -> ExecResult:
        """Run git with hooks, external programs and prompts off; `writes` uses the lane that may change `.git`."""

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

    async def close(self) -> None:
        """Stop the sandbox; nothing of it is left."""


PlanChange = Callable[[Plan], None]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may touch while it runs.

    `seen` holds the content hash of each file as an approval showed it ("" where there was none): a tool replaces just that.
    """

    sandbox: Sandbox
    plan: Plan
    set_plan: PlanChange
    on_output: OutputSink
    now: Callable[[], datetime]
    seen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool did: `text` for the model, `summary` for one line of the log, `changes` to files."""

    text: str
    summary: str = ""
    ok: bool = True
    changes: tuple[FileChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What an approval shows before a call runs: the exact command or the change as a unified diff."""

    text: str
    diff: str = ""
    path: str = ""


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

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return what the model is told of the tools."""

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        """Check one call as the model sent it.

        Raises:
            ToolError: no such tool, broken JSON, or arguments that do not fit; the text tells the model what to send.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """What one turn may spend; the units are in the names, 0 is no limit."""

    max_iterations: int = 500
    max_calls_per_message: int = 16
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How approvals are decided for a session: its mode and rules, and whether anybody is there to be asked."""

    mode: Mode = Mode.NORMAL
    rules: tuple[Rule, ...] = field(default=())
    is_attended: bool = True
