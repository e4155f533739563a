"""What a feature does for a workspace and its sessions, and what it may ask of the host.  The order is that of the registry."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lmtui.command_line import FAILURE, NONE, OK, CheckRow
from lmtui.config import Config
from lmtui.core.budgets import NO_BUDGET, SessionBudget
from lmtui.core.errors import UsageError
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Rule
from lmtui.core.ports import KeptChanges, Policy, TokenCounter
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ModelServers
from lmtui.core.sessions import Extensions
from lmtui.core.subagents import ChildKind
from lmtui.core.verification import CheckRan
from lmtui.core.workspace import EffectReview
from lmtui.engine.agent import TurnPoints
from lmtui.engine.session import EngineSession
from lmtui.features.attempt_values import Attempt, WorkspaceAttempts
from lmtui.features.folder_consent import FolderConsent
from lmtui.plain_files import NotPlain, read_plain
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.store.index_file import INDEX_FILE, IndexFile
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools, Told


class Workspace(Protocol):
    """A folder with its settings and its sandbox."""

    config: Config

    @property
    def workspace(self) -> Path:
        """Return the folder."""

    @property
    def is_attended(self) -> bool:
        """Tell whether somebody is there to answer."""

    @property
    def count_tokens(self) -> TokenCounter:
        """Return what prices a text."""

    async def sandbox(self) -> WorkspaceSandbox:
        """Return the sandbox; it starts when it is first used."""

    def rules(self) -> tuple[Rule, ...]:
        """Return the permission rules of the settings and the stored ones."""


Ended = Callable[[str], Awaitable[None]]
"""Called with the decision about reviewed changes: `accepted`, `partly accepted` or `rejected`."""


class TaskAttempts(WorkspaceAttempts, Protocol):
    """Attempts at one task of a plan, each in its own overlay."""

    async def try_task(self, task: str, title: str, checks: Sequence[str], earlier: int) -> Attempt:
        """Run an attempt to its end; it differs from `earlier` ones at the same task.

        The `checks` are its goal, which ends it.

        Raises:
            UsageError: they cannot run here.
        """

    def sandbox_of(self, attempt: Attempt) -> WorkspaceSandbox:
        """Return the workspace as an attempt sees it."""

    def spent_of(self, attempt: Attempt) -> SessionBudget:
        """Return what an attempt spent."""

    def failures_of(self, attempt: Attempt) -> Sequence[CheckRan]:
        """Return the checks that failed at the end of an attempt."""

    async def keep(self, attempt: Attempt, units: Collection[int] | None, rules: Sequence[Rule]) -> KeptChanges:
        """Keep some units of the changes of an attempt, or all with None; these rules hold next to the folder's.

        Raises:
            SandboxError: files have changed since, or a rule denies it; nothing was kept.
        """

    def review_patch(self, patch: Path, title: str, session_id: str, ended: Ended) -> EffectReview:
        """Return the changes of a patch, to be kept in parts as a step of an open session; `ended` is called with the decision.

        Raises:
            UsageError: the session is not open.
        """

    async def close(self) -> None:
        """Stop what runs and drop what was not kept."""


@dataclass(frozen=True, slots=True)
class SessionVariant:
    """How a session differs from what the settings and the workspace say: where it works, and with which settings.

    Without a `model` or `url` it asks those in use.
    """

    sandbox: WorkspaceSandbox
    config: Config
    model: str = ""
    url: str = ""


class FeatureHost(Workspace, Protocol):
    """The host of a workspace's sessions."""

    @property
    def sessions(self) -> Iterable[EngineSession]:
        """Return the sessions that are open."""

    @property
    def servers(self) -> ModelServers:
        """Return what is asked whether a model server is there."""

    @property
    def extensions(self) -> Extensions:
        """Return what the workspace and its user bring."""

    async def new_session(
        self, policy: Policy | None = None, *, variant: SessionVariant | None = None, has_model: bool = True
    ) -> EngineSession:
        """Open a fresh session with its own policy; one without a model runs only the calls of others."""

    def new_attempts(self, budget: SessionBudget = NO_BUDGET) -> TaskAttempts:
        """Return the place for attempts at one task, each of which may spend so much; who asks for it closes it."""

    async def slot_count(self, url: str = "") -> int:
        """Ask a server, or the one in use, how many requests it works on at once."""

    async def open_session(self, session_id: str, policy: Policy | None = None) -> EngineSession:
        """Open an earlier session with its own policy."""

    def is_open(self, session_id: str) -> bool:
        """Tell whether this process has a session open."""

    def take_server_of(self, session_id: str) -> None:
        """Use the server that a session used last, where none is named."""

    async def choose_server(self) -> str:
        """Take the first server found, where none was chosen."""

    async def require_sandbox(self) -> None:
        """Start the sandbox that the settings name."""


@dataclass(frozen=True, slots=True)
class SkillFiles:
    """Where skills are kept: `add` keeps the text of one, for this folder or for all of the user's, and returns its place."""

    add: Callable[[str, bool], Awaitable[str]]


_MOST_IMPORTED_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Import:
    """Something that `lmtui import` can take over from an earlier program; `run` does it and says where it went."""

    text: str
    run: Callable[[], Awaitable[str]]


def text_to_import(root: Path, name: str) -> str:
    """Return a file of an earlier program, empty where there is none.  Blocks.

    Raises:
        UsageError: it is not a regular file.
    """
    try:
        return (read_plain(root, name, _MOST_IMPORTED_BYTES) or b"").decode("utf-8", "replace")
    except NotPlain as error:
        raise UsageError(f"{name} cannot be imported: {error}", "Put the file itself there, or remove it.") from error


@dataclass(slots=True)
class SessionServices:
    """What one session gets.

    `config` are its settings, which for an attempt differ from those of the workspace; an attempt `is_apart`: only what acts in
    its sandbox alone is for it.
    """

    session_id: str
    config: Config
    features: Offers
    points: TurnPoints = field(default_factory=TurnPoints)
    is_apart: bool = False


class WorkspaceFeature:
    """A feature in one workspace; what it does not bring, it leaves as it is.

    Args:
        host: of the workspace; for who only asks, one without sessions (`Workspace`).
        extensions: where it puts what it brings; what features before it brought is there.

    `trust` is what the folder brings by it that waits for the user's word, by kind; one that `works_apart` is for attempts too.
    """

    trust: Sequence[FolderConsent] = ()
    works_apart = False

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        self.host = host
        del extensions

    async def prepare(self) -> None:
        """Do what has to be done before a session is opened."""

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Give a session that is about to be opened what it brings."""

    def told(self) -> Mapping[str, Told]:
        """Return when the model learns of its tools, by name, where that depends on the settings."""
        return {}

    def tools(self, own: ToolRegistry, kind: ChildKind | None = None) -> Sequence[BroughtTools]:
        """Return what it brings next to our `own` tools to a session, or to a sub-agent of a `kind`."""
        del own, kind
        return ()

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Listen to a session that was opened."""

    def let_go(self, session_id: str) -> bool:
        """Give a session that it works in to the user, who opens it; tell whether it did."""
        del session_id
        return False

    def secrets(self) -> Sequence[str]:
        """Return values that no log and no model may get."""
        return ()

    def own_work(self) -> str:
        """Return in words what it does by itself, for which the process has to stay; empty for nothing."""
        return ""

    async def serve(self) -> None:
        """Do what it does by itself, until this is cancelled."""

    async def stop(self) -> None:
        """Stop what it does in sessions, which are closed then."""

    async def close(self) -> None:
        """End everything."""

    def problems(self) -> Sequence[str]:
        """Return what of its files cannot be read, so that nobody can be asked about it.  Blocks."""
        return ()

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Return its rows of `lmtui doctor`."""
        del is_offline
        return ()


async def index_row(name: str, file: IndexFile) -> CheckRow:
    """Return the row of `lmtui doctor` about a part of a workspace's index."""
    problem = await asyncio.to_thread(file.problem)
    hint = "Use the lmtui that wrote it; this one moves a damaged index aside and begins a new one." if problem else ""
    state = FAILURE if problem else OK if file.exists() else NONE
    return CheckRow(name, state, sanitize_line(problem) or f"{name} in {INDEX_FILE}: {_INDEX_STATES[state]}", hint)


_INDEX_STATES = {OK: "readable", NONE: "none yet"}


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A subcommand that was called: `open_host` opens the host of the workspace, which ends with its context."""

    workspace: Workspace
    arguments: argparse.Namespace
    open_host: Callable[[], AbstractAsyncContextManager[FeatureHost]]
