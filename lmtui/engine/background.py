"""What a session learns beside its turns: what its model is, and the sandbox, started before it is needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence

from lmtui.core.agent_events import BackgroundChanged
from lmtui.core.errors import SandboxError
from lmtui.core.events import Envelope, Event, Level, Notice, SandboxSelected
from lmtui.core.ports import Checkpoints, Provider, Sandbox
from lmtui.core.shell.grammar import parse
from lmtui.engine.desk import Desk
from lmtui.engine.roles import take_up
from lmtui.engine.titles import make_title, wants_title

_PATIENCE_S = 1.0


class Background:
    """Owns the tasks that run beside the turns of one session.

    Args:
        emit: takes the events that tell what was learned; must not raise.
    """

    def __init__(self, desk: Callable[[], Desk], emit: Callable[[Event], None]) -> None:
        self._desk = desk
        self._emit = emit
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: set[asyncio.Task[None]] = set()
        self._has_sandbox = False

    def learn_model(self, provider: Provider) -> None:
        """Ask the server about the model in use."""
        self._desk().model.forget()
        self._desk().missing_roles.clear()
        looking = self._spawn(self._learn_model(provider))
        self._looking.add(looking)
        looking.add_done_callback(self._looking.discard)

    def name_session(self, history: Callable[[], Sequence[Envelope]]) -> None:
        """Look for a better name of a session whose first turn is over, if its budget is not used up."""
        if wants_title(self._desk(), history()) and not self._desk().spending.over():
            _ = self._spawn(make_title(self._desk(), history, self._emit))

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
        model = self._desk().settings.model
        served = await provider.served(model)
        desk = self._desk()
        if model != desk.settings.model:
            return
        if served is None and model and await provider.served("") is not None:
            text = f"{provider.url} lists no model called {model!r}: it may answer with another. /model shows what it has."
            self._emit(Notice(level=Level.WARNING, text=text))
        take_up(desk, served, self._emit)

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
