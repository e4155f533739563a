"""The one task of a session that runs its turns, one for each text that waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable

from lmtui.core.errors import SessionFileError
from lmtui.core.events import InboxChanged, TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import ToolCall
from lmtui.engine.agent import Agent
from lmtui.engine.context_fit import compact_now
from lmtui.engine.inbox import UserInput
from lmtui.engine.tool_runner import run_call
from lmtui.engine.turn import FAILED_INSIDE, run_turn
from lmtui.engine.turn_outcome import EXIT_CODES

_TIMEOUT_S = 120


async def run_user_command(agent: Agent, said: UserInput, turn_id: str) -> None:
    """Run one command, or one call, to its end; a cancel passes on."""
    started = agent.services.monotonic()
    reason, error_text = TurnReason.ERROR, FAILED_INSIDE
    arguments = said.text if said.tool else json.dumps({"command": said.text, "timeout": _TIMEOUT_S})
    agent.begin(turn_id)
    try:
        agent.emit(TurnStarted(agent=agent.id, turn_id=turn_id))
        call = ToolCall(f"user_{turn_id}", said.tool or "shell", arguments)
        await run_call(agent, call, turn_id, agent.turn.files, by="user" if said.is_told else "user_alone")
        reason, error_text = TurnReason.DONE, ""
    except asyncio.CancelledError:
        reason, error_text = TurnReason.INTERRUPTED, ""
        raise
    except SessionFileError as error:
        error_text = error.full_text()
    finally:
        with contextlib.suppress(SessionFileError):  # it was shown; the log's failure was told with what went before
            agent.emit(
                TurnEnded(
                    agent=agent.id,
                    turn_id=turn_id,
                    reason=reason,
                    status=str(reason),
                    exit_code=EXIT_CODES[reason],
                    files_changed=tuple(agent.turn.files),
                    elapsed_s=round(agent.services.monotonic() - started, 3),
                    sandbox=agent.state.sandbox.name,
                    error=error_text,
                )
            )


_log = logging.getLogger(__name__)


class TurnRunner:
    """Runs turns while something waits in the inbox.

    Args:
        agent: the root agent.
        emit: takes events from outside a turn; must not raise.
        after_turn: called after each turn.
        name: of the session, for the tasks' names.
    """

    def __init__(
        self,
        agent: Agent,
        emit: Callable[[InboxChanged], None],
        after_turn: Callable[[], None],
        name: str,
    ) -> None:
        self._agent = agent
        self._emit = emit
        self._after_turn = after_turn
        self._name = name
        self._task: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[None] | None = None
        self.turns = 0

    @property
    def is_running(self) -> bool:
        """Tell whether a turn is under way."""
        return self._task is not None

    def wake(self) -> None:
        """Start on what waits, or show that it waits."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name=f"session {self._name}")
        else:
            self.show_inbox()

    def show_inbox(self) -> None:
        """Say what waits."""
        self._emit(self._agent.inbox.as_event(self._agent.id))

    def interrupt(self) -> None:
        """Stop the running turn; what waits is held back.

        The cancel comes one step later, so that a turn that has only just been made has begun and ends as interrupted.
        """
        loop = asyncio.get_running_loop()
        inbox = self._agent.inbox
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
            while self._agent.inbox:
                is_queued = len(self._agent.inbox.texts) > 1 or self._turn is not None
                said = self._agent.inbox.take()
                if is_queued:
                    self.show_inbox()
                turn_id = f"turn_{self.turns + 1}"
                run = run_user_command if said.is_command else compact_now if said.is_compaction else run_turn
                self._turn = asyncio.get_running_loop().create_task(run(self._agent, said, turn_id), name=turn_id)
                await asyncio.wait({self._turn})
                self._after_turn()
                if not self._turn.cancelled() and (error := self._turn.exception()) is not None:
                    _log.error("turn %s failed inside", turn_id, exc_info=error)
        finally:
            self._turn = self._task = None


class InputQueue:
    """What waits in one session; implements `core.sessions.Waiting`.

    Args:
        agent: the root agent.
        worker: runs what waits.
        is_closed: tells that nothing is taken up any more.
        rename: gives the session a title; called with the first words of a session that has none.
    """

    def __init__(
        self,
        agent: Agent,
        worker: TurnRunner,
        is_closed: Callable[[], bool],
        rename: Callable[[str], None],
    ) -> None:
        self._agent = agent
        self._worker = worker
        self._is_closed = is_closed
        self._rename = rename

    def put(self, said: UserInput) -> None:
        """Take something up now or when its turn comes; nothing but blanks and no picture is nothing."""
        if self._is_closed() or not (said.text.strip() or said.images or said.is_compaction):
            return
        self._agent.inbox.put(said)
        if not (said.is_command or said.is_reminder or said.is_compaction):
            self._rename((said.typed or said.text).strip().partition("\n")[0])
        self._worker.wake()

    def drop(self, index: int) -> str:
        """Take one back as it was typed."""
        text = self._agent.inbox.drop(index)
        self._worker.show_inbox()
        return text

    def go_on(self) -> None:
        """Take up again what an interrupt left waiting."""
        inbox = self._agent.inbox
        if inbox.is_paused and not self._is_closed():
            inbox.go_on()
            self._worker.show_inbox()
            self._worker.wake()

    def run_command(self, command: str, *, is_told: bool = True) -> None:
        """Run a shell command of the user's own, behind the running turn."""
        self.put(UserInput(command.strip(), is_command=True, is_told=is_told))

    def make_room(self, focus: str = "") -> None:
        """Sum the conversation up now, before the next step of the running turn or at once."""
        self.put(UserInput(focus.strip(), is_compaction=True, is_steering=self._worker.is_running))
