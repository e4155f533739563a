"""What a session learns next to its turns: what its model is, and the sandbox, started before it is needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence

from lmtui.core.agent_events import BackgroundChanged
from lmtui.core.errors import ProviderError, SandboxError
from lmtui.core.events import ROOT, Envelope, Event, Level, MessageAdded, Notice, SandboxSelected, SessionRenamed, TurnEnded
from lmtui.core.messages import Completion, Message, ModelRequest, Priority, Role, TextChunk
from lmtui.core.permissions.shell_grammar import parse
from lmtui.core.ports import Checkpoints, Provider, Sandbox
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.core.sanitize import sanitize_line
from lmtui.engine.agent import Agent
from lmtui.engine.entries import bare
from lmtui.engine.model_roles import for_role, take_up
from lmtui.engine.spending import TITLER
from lmtui.engine.usage import usage_beside

MAX_TITLE_CHARS = 60
_MOST_WORDS_CHARS = 1_500
_MAX_TOKENS, _THINKING_TOKENS = 40, 2_000
_TOO_MUCH_CHARS = 400
_ANY = range(1, 1_000_000)
_ASK = "You name conversations. Answer with a title of three to six words for this one, without quotes, and with nothing else."


def wants_title(agent: Agent, history: Sequence[Envelope], turns: range = range(1, 2)) -> bool:
    """Tell whether a model is named for titles, so many turns are over, and the session has only its first words as a name."""
    if not agent.model.roles.get(ModelRole.TITLE, RoleModel()).model:
        return False
    kinds = [type(each.event) for each in bare(history) if each.event.agent == ROOT]
    return kinds.count(TurnEnded) in turns and kinds.count(SessionRenamed) <= 1


async def make_title(agent: Agent, history: Callable[[], Sequence[Envelope]], emit: Callable[[Event], None]) -> None:
    """Ask for a title when the server has nothing else to do; where none comes, or the user was quicker, the name stays."""
    said = [each.event for each in bare(history()) if isinstance(each.event, MessageAdded) and each.event.agent == ROOT]
    words = "\n\n".join(f"{event.role}: {event.text}" for event in said if event.text.strip())[:_MOST_WORDS_CHARS]
    settings = for_role(agent.model.roles, ModelRole.TITLE, agent.state.model.main)
    request = ModelRequest(
        (Message(Role.SYSTEM, _ASK), Message(Role.USER, words)),
        (),
        settings.model,
        temperature=settings.temperature,
        seed=settings.seed,
        max_tokens=min(_MAX_TOKENS + _THINKING_TOKENS, settings.max_tokens or _ANY.stop),
        urgency=Priority.BACKGROUND,
        is_attended=False,
    )
    size_chars = 0  # only the answer counts: a model may think first, and one that continues after it is stopped
    with contextlib.suppress(ProviderError):
        async with contextlib.aclosing(agent.services.provider.stream(request)) as pieces:
            async for piece in pieces:
                size_chars += len(piece.text) if isinstance(piece, TextChunk) else 0
                if size_chars > _TOO_MUCH_CHARS:
                    return
                if isinstance(piece, Completion):
                    emit(usage_beside(TITLER, request, piece))
                    title = _title(piece.message.text)
                    if title and wants_title(agent, history(), turns=_ANY):
                        emit(SessionRenamed(title=title))


def _title(text: str) -> str:
    """Return the first line of an answer as a title, empty where it is none."""
    line = sanitize_line(text.strip().partition("\n")[0]).strip(" \"'“”*#.")
    return line if 0 < len(line) <= MAX_TITLE_CHARS else ""


_PATIENCE_S = 1.0


class Background:
    """Owns the tasks that run next to the turns of one session.

    Args:
        emit: takes the events that tell what was learned; must not raise.
    """

    def __init__(self, agent: Agent, emit: Callable[[Event], None]) -> None:
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

    def name_session(self, history: Callable[[], Sequence[Envelope]]) -> None:
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
            self._emit(Notice(level=Level.WARNING, text=text))
        take_up(agent, served, self._emit)

    async def _start_sandbox(self, sandbox: Sandbox, checkpoints: Checkpoints | None) -> None:
        background = sandbox.background
        background.watch(lambda: self._emit(BackgroundChanged(commands=tuple(background.commands()))))
        try:
            status = await sandbox.status()
        except SandboxError as error:
            self._emit(Notice(level=Level.ERROR, text=error.full_text()))
            return
        self._emit(
            SandboxSelected(
                backend=status.backend,
                network=status.network,
                text=status.text,
                is_weaker=status.is_weaker,
                reason=status.reason,
                asks_each_command=status.asks_each_command,
            )
        )
        for warning in status.warnings:
            self._emit(Notice(level=Level.WARNING, text=warning))
        await asyncio.to_thread(parse, "true")  # the first decision would hold the event loop to load the grammar
        if checkpoints is not None:
            with contextlib.suppress(SandboxError):  # the first step that needs one says so
                await checkpoints.snapshot()

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
