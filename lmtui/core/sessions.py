"""What front ends may ask: of a session, of what it changed, and of the host that opens sessions.  Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from lmtui.core.budgets import SessionBudget
from lmtui.core.events import ApprovalRequested, ApprovalResolved, Envelope, Outcome
from lmtui.core.messages import Image, ToolCallFormat
from lmtui.core.offers import Offered
from lmtui.core.permissions.rules import GrantScope, Mode, Rule
from lmtui.core.plan_mode import PlanApprovals
from lmtui.core.prompt_text import FilledPrompt
from lmtui.core.remote_marks import in_thread, kept_back, mirrored, open_to_network
from lmtui.core.roles import ModelRole, Roles
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ModelServers
from lmtui.core.times import moment_text, zone_of
from lmtui.core.trust import Trust
from lmtui.core.verification import Goals
from lmtui.core.window import WindowUse
from lmtui.core.workspace import BackgroundCommands, Changes, EffectReview, Files, kept_text

NOBODY = "headless"
_NOBODY_THERE = "running unattended"


def answer_words(event: ApprovalResolved, part: str = "") -> str:
    """Return an answer in a line, such as `session by user` or `no: running unattended`; `part` begins it instead."""
    if event.by == NOBODY and event.outcome is Outcome.NO:
        return f"{event.outcome}: {_NOBODY_THERE}"
    feedback = f": {event.feedback}" if event.feedback else ""
    return f"{part or f'{event.outcome} by'} {event.by}{feedback}"


def chosen_words(asked: ApprovalRequested, event: ApprovalResolved) -> str:
    """Return how much of what was asked about was allowed, such as `kept 5 of 8`; empty for all or nothing."""
    if not event.hunks:
        return ""
    return kept_text(asked.parts, event.hunks) if asked.parts else f"{len(event.hunks)} of {asked.hunks} hunks"


def refusal_words(event: ApprovalResolved) -> str:
    """Return why something was refused, by whom."""
    return _NOBODY_THERE if event.by == NOBODY else f"you: {event.feedback}"


class Extensions(Protocol):
    """What a workspace and its user bring to every session; what a feature offers is under the port that it declares."""

    @property
    @open_to_network
    def names(self) -> Sequence[str]:
        """Return the names of the ports that are offered."""

    def __contains__(self, port: type) -> bool:
        """Tell whether a feature offers a port."""

    def __getitem__(self, port: type[Offered]) -> Offered:
        """Return what a feature offers under its port.

        Raises:
            LmtuiError: nothing is offered: the feature is turned off or not there.
        """


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting: its value as a person reads it (a secret as dots), where that came from, and a line of help.

    `text` is the value as it may be edited, empty for a secret; `choices` are all it may be, empty where anything may;
    `variables` are its names in the environment; `label` is its name in words, `group` where it is listed.  A value
    that `is_secret` is not shown while it is typed.
    """

    name: str
    value: str
    source: str
    doc: str
    text: str = ""
    choices: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    is_list: bool = False
    label: str = ""
    group: str = ""
    is_secret: bool = False


class SettingsControls(Protocol):
    """The settings in force, and the user's own file of them."""

    @in_thread
    def rows(self) -> Sequence[SettingRow]:
        """Return every setting, in the order in which they are documented."""

    @in_thread
    def change(self, name: str, text: str | None) -> SettingRow:
        """Write a value into the user's own file (None takes it out) and return what is in force then.  Blocks (disk).

        Something stronger, such as a flag, may still win: the row's source says so.  It holds for sessions opened from now on.

        Raises:
            ConfigError: it cannot be that, or it cannot be written; nothing is changed then.
        """

    @open_to_network
    @in_thread
    def roles(self) -> Roles:
        """Return which models the settings name for roles."""

    @in_thread
    def set_role(self, role: ModelRole, model: str) -> None:
        """Name a model for a role in the user's own file, an empty one for none; see `change`."""


Subscriber = Callable[[Envelope], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's answer to an approval.  `feedback` goes to the model with a no.

    `rule` is the number (from 0) of an offered rule, `scope` says how far an `always` reaches.  `edited` is a command to run in
    place of the one that was shown.  `hunks` are those of a change that are accepted (from 0, as its diff has them), None is
    all; with some of them nothing is granted for later.  `by` names who answers, for the other clients of the session.
    """

    outcome: Outcome
    feedback: str = ""
    rule: int = 0
    scope: GrantScope = GrantScope.WORKSPACE
    edited: str = ""
    hunks: tuple[int, ...] | None = None
    by: str = "user"


class Waiting(Protocol):
    """What the user said and that has not been taken up, and the commands that they run themselves."""

    @open_to_network
    def begin(self, prompt: FilledPrompt, typed: str) -> None:
        """Take up a task that a command's file says, behind the running turn; `typed` is what the user typed."""

    @open_to_network
    def drop(self, index: int) -> str:
        """Take one back and return it as it was typed; an index that is gone gives an empty text."""

    @open_to_network
    def go_on(self) -> None:
        """Take up again what an interrupt left waiting."""

    def run_command(self, command: str, *, is_told: bool = True) -> None:
        """Run a shell command of the user's own, behind the running turn; with `is_told` the model hears what came of it.

        It needs no approval for what the mode would only ask about; deny and ask rules hold.
        """

    @open_to_network
    def make_room(self, focus: str = "") -> None:
        """Sum up what the model was sent so far, before the next step of the running turn or at once.

        `focus` says in words what matters most; the log keeps everything.
        """


@dataclass(frozen=True, slots=True)
class CallsInUse:
    """In which form the model calls tools now, why in words (empty: nothing speaks against it), and whether manually."""

    form: ToolCallFormat
    why: str = ""
    is_by_hand: bool = False


# Runs what an agent (named by its id) does, to its end.  A cancel passes on, and the work begins even if it comes at once.
AgentRunner = Callable[[str, Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]


async def run_in_place(agent: str, work: Coroutine[Any, Any, None]) -> None:
    """Run an agent's work in the task that asks for it; the `AgentRunner` where no front end has its own."""
    del agent
    await work


NO_TRIAL = (
    "try mode needs overlays, which are not available here: "
    "use bubblewrap 0.11 or Docker, without network or writable added folders, or choose another mode (F5 or /mode)"
)
BETWEEN_TURNS = "You can turn try mode on or off only between turns. Wait for this turn to end, or stop it."


class Trial(EffectReview, Protocol):
    """The overlay of try mode and its unmerged changes; what is kept is a step that can be undone."""

    @property
    @open_to_network
    def waiting(self) -> int:
        """Return how many files are not merged."""

    @open_to_network
    async def problem(self) -> str:
        """Return why try mode is not available here, empty where it is."""


class Session(Protocol):
    """One conversation with one agent in one workspace.  All methods are called on the event loop and return at once."""

    @property
    @open_to_network
    def id(self) -> str:
        """Return the session's id, `YYYYMMDD_HHMMSS_xxxxxx`."""

    @property
    @open_to_network
    def is_running(self) -> bool:
        """Tell whether a turn is under way."""

    @property
    @open_to_network
    def mode(self) -> Mode:
        """Return the permission mode."""

    @property
    def background(self) -> BackgroundCommands:
        """Return the commands that run in the background."""

    @kept_back
    def history(self) -> Sequence[Envelope]:
        """Return every durable event so far, oldest first.  Applying them draws what was drawn live."""

    @kept_back
    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each later event, in order, on the event loop; the returned function ends it."""

    @open_to_network
    def submit(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        """Take up a task: start a turn, or queue it behind the one that runs.

        `typed` is the text as it was in the prompt, where that differs (large pastes folded): only the files mentioned in
        it (`@path`) are attached.
        """

    @open_to_network
    def steer(self, text: str, *, typed: str = "", images: Sequence[Image] = ()) -> None:
        """Say something that goes in before the next step of the running turn (or starts one)."""

    @property
    def waiting(self) -> Waiting:
        """Return what waits to be taken up."""

    @kept_back
    def run_agents_in(self, runner: AgentRunner) -> None:
        """Let a front end run each agent's work, so that it can list and cancel them; without it they are plain tasks."""

    @open_to_network
    def interrupt(self) -> None:
        """Stop the running turn: close the stream, kill the running command; the session continues, what is queued waits."""

    @open_to_network
    def answer(self, approval_id: str, answer: Answer) -> None:
        """Answer an open approval; one that is already resolved is ignored.

        Raises:
            UsageError: the question does not offer this answer; it stays open.
        """

    @open_to_network
    def set_mode(self, mode: Mode) -> None:
        """Change the permission mode from the next call on."""

    @open_to_network
    def set_model(self, model: str) -> None:
        """Change the model from the next request on."""

    @open_to_network
    def rename(self, title: str) -> None:
        """Give the session a title."""

    @property
    def window_use(self) -> WindowUse:
        """Return what fills the model's window."""

    @open_to_network
    @mirrored
    def budget(self) -> tuple[SessionBudget, SessionBudget]:
        """Return what the session may spend (an empty budget means no limit), and what was spent of it."""

    @open_to_network
    def set_budget(self, budget: SessionBudget) -> None:
        """Let the session spend so much from now on."""

    @property
    def goals(self) -> Goals:
        """Return the commands that end its work."""

    @open_to_network
    @mirrored
    def call_form(self) -> CallsInUse:
        """Return the form in which the model calls tools."""

    def use_call_form(self, form: ToolCallFormat | None) -> None:
        """Set the form manually from the next request on, and keep it for this model; None lets lmtui choose again."""

    @property
    def plans(self) -> PlanApprovals:
        """Return the plan that waits for an answer, and the ways to answer it."""

    @property
    def changes(self) -> Changes | None:
        """Return what it changed and the ways back, None where no checkpoints can be made."""

    @property
    def trial(self) -> Trial:
        """Return the overlay of try mode."""

    @property
    @open_to_network
    def rules(self) -> Sequence[Rule]:
        """Return every permission rule in force, those granted in the session among them."""

    def revoke(self, rule: Rule) -> None:
        """Take back a rule: one granted for always goes for good, one from settings or flags for this session only."""

    @open_to_network
    async def wait_idle(self) -> None:
        """Wait until no turn runs and nothing is queued."""

    @kept_back
    async def close(self) -> None:
        """Interrupt what runs, write what is due and let go of the log; idempotent."""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session as a list shows it.  `state` is writing, waits, done, interrupted, error, limit, blocked or new.

    `tokens` is what its last request filled of the window; `match` is the line in which searched words were found;
    `is_elsewhere`: another lmtui has it open.  `wakes` is when one that waits for its time continues.
    """

    id: str
    title: str
    state: str
    model: str
    created: datetime
    updated: datetime
    changed_files: int
    last_line: str
    is_open: bool = False
    tokens: int = 0
    match: str = ""
    is_elsewhere: bool = False
    wakes: datetime | None = None


def summary_line(summary: SessionSummary) -> str:
    """Return a session as a list of lines has it: its id, state, changed files and title, and when it continues."""
    title = sanitize_line(summary.title)[:60] or "(untitled)"
    state = "needs you" if summary.state == "waits" else summary.state
    wakes = f"  wakes {moment_text(summary.wakes, datetime.now(UTC), zone_of(''))}" if summary.wakes is not None else ""
    files = f"{summary.changed_files:>3} {'file ' if summary.changed_files == 1 else 'files'}"
    return f"{summary.id}  {state:<13} {files}  {title}{wakes}"


class SessionSearch(Protocol):
    """An index of what was said in earlier sessions."""

    async def sessions_like(self, words: str, most: int) -> Mapping[str, str]:
        """Return sessions that say much the same, or some of the words, by id, each with its text; the best is last."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """A session of a host as a list over all folders shows it; `clients` look at it."""

    folder: Path
    session: SessionSummary
    clients: int = 0


class Archive(Protocol):
    """The sessions of a workspace, open or not.  All raise `SessionFileError` where a log cannot be read or written."""

    @open_to_network
    @in_thread
    def find(self, search: str = "", limit: int = 50) -> Iterator[SessionSummary]:
        """Yield the sessions, newest first, each as soon as it is read; see `sessions`.  Blocks (disk) between them."""

    @open_to_network
    @in_thread
    def sessions(self, search: str = "", limit: int = 50) -> Sequence[SessionSummary]:
        """Return the workspace's sessions, newest first; with `search`, those whose text has all its words.  Blocks (disk)."""

    @open_to_network
    @in_thread
    def look_up(self, session_ids: Sequence[str]) -> Sequence[SessionSummary]:
        """Return those of these sessions that are there, in their order.  Blocks (disk)."""

    @open_to_network
    async def delete(self, session_id: str) -> None:
        """Delete a session's log; an open one is closed first."""

    @open_to_network
    async def fork(self, session_id: str, seq: int = 0) -> str:
        """Copy a session up to one of its events (0: all of it) and return the id of the copy; the original stays.

        Files are not changed.  What was granted for the session, what it had queued and what could be undone in it stays
        with the original.
        """

    async def export(self, session_id: str, form: str) -> Path:
        """Write a session as `md`, `html` or `jsonl` where lmtui was started, else into the user's own folder."""


class SessionHost(Protocol):
    """What a front end needs next to sessions: which there are, opening one, finding servers, looking at files."""

    @property
    @open_to_network
    def workspace(self) -> Path:
        """Return the folder that the agents work in."""

    @property
    def trust(self) -> Trust:
        """Return what the folder brings and what waits for the user's word."""

    @property
    def files(self) -> Files:
        """Return the workspace's files."""

    @property
    def settings(self) -> SettingsControls:
        """Return the settings, to be shown and changed."""

    @property
    @open_to_network
    def setup_note(self) -> str:
        """Return why no session can be opened yet (no model server chosen), else an empty string."""

    @property
    def servers(self) -> ModelServers:
        """Return what may be done with model servers."""

    @property
    def archive(self) -> Archive:
        """Return the workspace's sessions, open or not."""

    @property
    def extensions(self) -> Extensions:
        """Return what the workspace and its user bring: MCP servers, skills, slash commands."""

    @kept_back
    async def serve(self) -> None:
        """Do what features do by themselves, until this is cancelled."""

    @kept_back
    async def new_session(self) -> Session:
        """Open a fresh session."""

    @kept_back
    async def open_session(self, session_id: str) -> Session:
        """Open an earlier session by its id, or a unique end of it; one that is open already is returned as it is."""

    @open_to_network
    async def switch_model(self, session_id: str, url: str, model: str) -> None:
        """Let an open session use a model of any server from its next request on, and sessions that are opened later.

        Raises:
            ProviderError: the server does not answer, or the model file does not run.
        """

    @kept_back
    async def start_demo(self) -> None:
        """Start the built-in scripted server on a fresh demo folder and make it the server in use."""

    @kept_back
    async def close(self) -> None:
        """Close every session and sandbox."""
