"""The one task of a session that runs its turns, one for each text that waits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lmtui.core.events import InboxChanged
from lmtui.engine.desk import Desk
from lmtui.engine.room_by_hand import make_room_now
from lmtui.engine.turn import run_turn
from lmtui.engine.user_command import run_user_command

_log = logging.getLogger(__name__)


class Worker:
    """Runs turns while something waits in the inbox.

    Args:
        desk: returns what the turns work with.
        emit: takes events from outside a turn; must not raise.
        after_turn: called after each turn.
        name: of the session, for the tasks' names.
    """

    def __init__(
        self, desk: Callable[[], Desk], emit: Callable[[InboxChanged], None], after_turn: Callable[[], None], name: str
    ) -> None:
        self._desk = desk
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
        self._emit(self._desk().inbox.as_event(self._desk().agent))

    def interrupt(self) -> None:
        """Stop the running turn; what waits is held back.

        The cancel comes one step later, so that a turn that has only just been made has begun and ends as interrupted.
        """
        loop = asyncio.get_running_loop()
        inbox = self._desk().inbox
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
        """Run a turn for each text.  The turn is a task of its own, so that stopping it does not stop the session."""
        try:
            while self._desk().inbox:
                is_queued = len(self._desk().inbox.texts) > 1 or self._turn is not None
                said = self._desk().inbox.take()
                if is_queued:
                    self.show_inbox()
                turn_id = f"turn_{self.turns + 1}"
                run = run_user_command if said.is_command else make_room_now if said.is_compaction else run_turn
                self._turn = asyncio.get_running_loop().create_task(run(self._desk(), said, turn_id), name=turn_id)
                await asyncio.wait({self._turn})
                self._after_turn()
                if not self._turn.cancelled() and (error := self._turn.exception()) is not None:
                    _log.error("turn %s failed inside", turn_id, exc_info=error)
        finally:
            self._turn = self._task = None
