"""The one task of a session that runs its turns, one for each text that waits; and what it learns next to them.

Next to its turns a session learns what its model is and what it is called, and its sandbox starts before it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace

from lmtui.core import events
from lmtui.core.agent_events import BackgroundChanged
from lmtui.core.errors import ProviderError, SandboxError, SessionFileError
from lmtui.core.messages import Completion, Priority, TextChunk, ToolCall
from lmtui.core.permissions.shell_grammar import parse
from lmtui.core.ports import Checkpoints, Provider, Sandbox, ToolResult
from lmtui.core.prompt_text import FilledPrompt
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.core.sanitize import Redactor, sanitize_line
from lmtui.core.sessions import AgentRunner, run_in_place
from lmtui.engine.accounting import usage_beside
from lmtui.engine.agent import Agent
from lmtui.engine.context_budget import truncate_result
from lmtui.engine.context_fit import compact_now
from lmtui.engine.entries import bare
from lmtui.engine.inbox import UserInput
from lmtui.engine.model_roles import role_request, take_up
from lmtui.engine.spending import TITLER
from lmtui.engine.tool_runner import run_call
from lmtui.engine.turn import FAILED_INSIDE, run_turn

_TIMEOUT_S = 120


async def run_user_command(agent: Agent, said: UserInput, turn_id: str) -> None:
    """Run one command, or one call, to its end; a cancel passes on."""
    started = agent.services.monotonic()
    reason, error_text = events.TurnReason.ERROR, FAILED_INSIDE
    arguments = said.text if said.tool else json.dumps({"command": said.text, "timeout": _TIMEOUT_S})
    agent.begin(turn_id)
    try:
        agent.emit(events.TurnStarted(agent=agent.id, turn_id=turn_id))
        call = ToolCall(f"user_{turn_id}", said.tool or "shell", arguments)
        await run_call(agent, call, by="user" if said.is_told else "user_alone")
        reason, error_text = events.TurnReason.DONE, ""
    except asyncio.CancelledError:
        reason, error_text = events.TurnReason.INTERRUPTED, ""
        raise
    except SessionFileError as error:
        error_text = error.full_text()
    finally:
        with contextlib.suppress(SessionFileError):  # it was shown; the log's failure was told with what went before
            agent.end_turn(reason, started, error=error_text)


_log = logging.getLogger(__name__)


@dataclass(slots=True)
class TurnRunner:
    """Runs turns while something waits in the inbox; implements `core.sessions.Waiting`.

    `emit` takes events from outside a turn and must not raise; `after_turn` is called after each turn.  `rename` gives the
    session a title; it is called with the user's first words.  `name` is the session's, for the tasks' names.

    `has_shown`: the log says that something waits.  Once it `is_closed` nothing is taken up any more.
    """

    agent: Agent
    emit: Callable[[events.InboxChanged], None]
    after_turn: Callable[[], None]
    rename: Callable[[str], None]
    name: str
    turns: int = 0
    has_shown: bool = False
    is_closed: bool = False
    run_agent: AgentRunner = run_in_place
    _task: asyncio.Task[None] | None = None
    _turn: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether a turn is under way."""
        return self._task is not None

    def wake(self) -> None:
        """Start on what waits, or show that it waits."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=f"session {self.name}")
        else:
            self.show_inbox()

    def show_inbox(self) -> None:
        """Say what waits."""
        self.has_shown = bool(self.agent.inbox.texts)
        self.emit(self.agent.inbox.as_event(self.agent.id))

    def interrupt(self) -> None:
        """Stop the running turn; what waits is held back.

        The cancel comes one step later, so that a turn that has only just been made has begun and ends as interrupted.
        """
        loop = asyncio.get_running_loop()
        inbox = self.agent.inbox
        if self._turn is not None and inbox:
            inbox.pause()
            self.show_inbox()
        if self._turn is not None:
            loop.call_soon(self._turn.cancel)
        elif self._task is not None:
            loop.call_soon(self.interrupt)

    async def wait_idle(self) -> None:
        """Wait until no turn runs and nothing waits."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _work(self) -> None:
        """Run a turn for each text.  The turn is its own task, so that stopping it does not stop the session."""
        try:
            while self.agent.inbox:
                is_queued = self.has_shown or len(self.agent.inbox.texts) > 1 or self._turn is not None
                said = self.agent.inbox.take()
                if is_queued:
                    self.show_inbox()
                turn_id = f"turn_{self.turns + 1}"
                run = run_user_command if said.is_command else compact_now if said.is_compaction else run_turn
                work = self.run_agent(self.agent.id, run(self.agent, said, turn_id))
                self._turn = asyncio.get_running_loop().create_task(work, name=turn_id)
                await asyncio.wait({self._turn})
                self.after_turn()
                if not self._turn.cancelled() and (error := self._turn.exception()) is not None:
                    _log.error("turn %s failed inside", turn_id, exc_info=error)
        finally:
            self._turn = self._task = None

    def put(self, said: UserInput) -> None:
        """Take something up now or when its turn comes; nothing but blanks and no picture is nothing."""
        if self.is_closed or not (said.text.strip() or said.images or said.is_compaction):
            return
        self.agent.inbox.put(said)
        if not (said.is_command or said.is_reminder or said.is_compaction):
            self.rename((said.typed or said.text).strip().partition("\n")[0])
        self.wake()

    def begin(self, prompt: FilledPrompt, typed: str) -> None:
        self.put(UserInput(typed, prompt=prompt))

    def drop(self, index: int) -> str:
        text = self.agent.inbox.drop(index)
        self.show_inbox()
        return text

    def go_on(self) -> None:
        inbox = self.agent.inbox
        if inbox.is_paused and not self.is_closed:
            inbox.go_on()
            self.show_inbox()
            self.wake()

    def run_command(self, command: str, *, is_told: bool = True) -> None:
        self.put(UserInput(command.strip(), is_command=True, is_told=is_told))

    def make_room(self, focus: str = "") -> None:
        self.put(UserInput(focus.strip(), is_compaction=True, is_steering=self.is_running))


MAX_TITLE_CHARS, MAX_TITLE_WORDS = 60, 6
_MOST_WORDS_CHARS = 1_500
_MAX_TOKENS, _THINKING_TOKENS = 40, 2_000
_TOO_MUCH_CHARS = 400
_ANY = range(1, 1_000_000)
_ASK = "You name conversations. Answer with a title of three to six words for this one, without quotes, and with nothing else."


def wants_title(agent: Agent, history: Sequence[events.Envelope], turns: range = range(1, 2)) -> bool:
    """Tell whether to ask a model for a session title: only if it costs no prompt cache."""
    if not (agent.model.roles.get(ModelRole.TITLE, RoleModel()).model or agent.model.has_spare_slot()):
        return False
    kinds = [type(each.event) for each in bare(history) if each.event.agent == events.ROOT]
    return kinds.count(events.TurnEnded) in turns and kinds.count(events.SessionRenamed) <= 1


async def make_title(
    agent: Agent, history: Callable[[], Sequence[events.Envelope]], emit: Callable[[events.Event], None]
) -> None:
    """Ask for a title when the server has nothing else to do; where none comes, or the user was quicker, the name stays."""
    said = [
        each.event
        for each in bare(history())
        if isinstance(each.event, events.MessageAdded) and each.event.agent == events.ROOT
    ]
    words = "\n\n".join(f"{event.role}: {event.text}" for event in said if event.text.strip())[:_MOST_WORDS_CHARS]
    most_tokens = min(_MAX_TOKENS + _THINKING_TOKENS, agent.state.model.main.max_tokens or _ANY.stop)
    size_chars = 0  # only the answer counts: a model may think first, and one that continues after it is stopped
    with contextlib.suppress(ProviderError, SessionFileError):
        request = await role_request(agent, ModelRole.TITLE, _ASK, words, most_tokens=most_tokens, priority=Priority.BACKGROUND)
        async with contextlib.aclosing(agent.services.provider.stream(request)) as pieces:
            async for piece in pieces:
                size_chars += len(piece.text) if isinstance(piece, TextChunk) else 0
                if size_chars > _TOO_MUCH_CHARS:
                    return
                if isinstance(piece, Completion):
                    emit(usage_beside(TITLER, request, piece))
                    title = _title(piece.message.text)
                    if title and wants_title(agent, history(), turns=_ANY):
                        emit(events.SessionRenamed(title=title))


def _title(text: str) -> str:
    """Return the first line of an answer as a title, empty where it is none."""
    line = sanitize_line(text.strip().partition("\n")[0]).strip(" \"'“”*#.")
    is_short = len(line) <= MAX_TITLE_CHARS and len(line.split()) <= MAX_TITLE_WORDS
    return line if is_short else ""


_PATIENCE_S = 1.0


class Background:
    """Owns the tasks that run next to the turns of one session.

    Args:
        emit: takes the events that tell what was learned; must not raise.
    """

    def __init__(self, agent: Agent, emit: Callable[[events.Event], None]) -> None:
        self._agent = agent
        self._emit = emit
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: set[asyncio.Task[None]] = set()
        self._has_sandbox = False

    def learn_model(self, provider: Provider) -> None:
        """Ask the server about the model in use."""
        self._agent.model.known.forget()
        self._agent.model.missing_roles.clear()
        looking = self._spawn(self._learn_model(provider))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)

    def name_session(self, history: Callable[[], Sequence[events.Envelope]]) -> None:
        """Look for a better name of a session whose first turn is over, if its budget is not used up."""
        if wants_title(self._agent, history()) and not self._agent.services.spending.over():
            _ = self._spawn(make_title(self._agent, history, self._emit))

    def start_sandbox(self, sandbox: Sandbox, checkpoints: Checkpoints | None) -> None:
        """Start the sandbox, once, and say which it is; then keep the first state of the workspace, which takes longest."""
        if not self._has_sandbox:
            self._has_sandbox = True
            _ = self._spawn(self._start_sandbox(sandbox, checkpoints))

    async def close(self) -> None:
        """Cancel what still runs; a look at the server may end first: one that is cancelled leaves its socket open."""
        if self._looking:
            await asyncio.wait(self._looking, timeout=_PATIENCE_S)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _learn_model(self, provider: Provider) -> None:
        model = self._agent.state.model.settings.model
        served = await provider.served(model)
        agent = self._agent
        if model != agent.state.model.settings.model:
            return
        if served is None and model and await provider.served("") is not None:
            text = f"{provider.url} lists no model called {model!r}: it may answer with another. /model shows what it has."
            self._emit(events.Notice(level=events.Level.WARNING, text=text))
        take_up(agent, served, self._emit)

    async def _start_sandbox(self, sandbox: Sandbox, checkpoints: Checkpoints | None) -> None:
        background = sandbox.background
        background.watch(lambda: self._emit(BackgroundChanged(commands=tuple(background.commands()))))
        try:
            status = await sandbox.status()
        except SandboxError as error:
            self._emit(events.Notice(level=events.Level.ERROR, text=error.full_text()))
            return
        self._emit(
            events.SandboxSelected(
                backend=status.backend,
                network=status.network,
                text=status.text,
                is_weaker=status.is_weaker,
                reason=status.reason,
                asks_each_command=status.asks_each_command,
                has_overlays=status.has_overlays,
            )
        )
        await asyncio.to_thread(parse, "true")  # the first decision would hold the event loop to load the grammar
        if checkpoints is not None:
            with contextlib.suppress(SandboxError):  # the first step that needs one says so
                await checkpoints.snapshot()

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


MOST_AT_ONCE = 4
_MAX_RESULT_CHARS = 200_000


class OutsideCalls:
    """Runs calls that neither the model nor the user makes, but another program, each by itself.

    They run as the model's do, with permissions, hooks, checkpoints and the log; the conversation is told nothing of them.  A
    few run at a time, and those that overlap are one turn of the session.

    Args:
        agent: the root agent.
        next_turn: returns the id of a turn that begins.
        redactor: takes secrets out of results.
    """

    def __init__(self, agent: Agent, next_turn: Callable[[], str], redactor: Redactor) -> None:
        self._agent = agent
        self._next_turn = next_turn
        self._redactor = redactor
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._running = 0
        self._began_s = 0.0

    async def run(self, call: ToolCall, by: str) -> ToolResult:
        """Run one call and return how it ended; a cancel ends it as stopped and passes on.

        Args:
            call: its id is unique in the session.
            by: says whose it is; see `ToolCallStarted`.

        Raises:
            SessionFileError: the log cannot be written.
        """
        async with self._places:
            if self._running == 0:
                turn_id = self._next_turn()
                self._agent.begin(turn_id)
                self._agent.emit(events.TurnStarted(agent=self._agent.id, turn_id=turn_id))
                self._began_s = self._agent.services.monotonic()
            self._running += 1
            reason = events.TurnReason.DONE
            try:
                found = await run_call(self._agent, call, by=by)
            except asyncio.CancelledError:
                reason = events.TurnReason.INTERRUPTED
                raise
            finally:
                self._running -= 1
                if self._running == 0:
                    self._agent.end_turn(reason, self._began_s)
        return replace(found, text=self._redactor.text(truncate_result(call.name, found.text, _MAX_RESULT_CHARS)))
