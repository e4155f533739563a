"""Tool calls that come neither from the model nor from the user: another program makes them, each by itself.

They run as the model's do, with permissions, hooks, checkpoints and the log.  The conversation is told nothing of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from lmtui.core.events import TurnReason, TurnStarted
from lmtui.core.messages import ToolCall
from lmtui.core.ports import ToolResult
from lmtui.core.sanitize import Redactor
from lmtui.engine.agent import Agent
from lmtui.engine.context_budget import truncate_result
from lmtui.engine.tool_runner import run_call

MOST_AT_ONCE = 4
_MAX_RESULT_CHARS = 200_000


class OutsideCalls:
    """Runs calls from outside, a few at a time; those that overlap are one turn of the session.

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
            self._begin()
            reason = TurnReason.DONE
            try:
                found = await run_call(self._agent, call, by=by)
            except asyncio.CancelledError:
                reason = TurnReason.INTERRUPTED
                raise
            finally:
                self._end(reason)
        return replace(found, text=self._redactor.text(truncate_result(call.name, found.text, _MAX_RESULT_CHARS)))

    def _begin(self) -> None:
        if self._running == 0:
            turn_id = self._next_turn()
            self._agent.begin(turn_id)
            self._agent.emit(TurnStarted(agent=self._agent.id, turn_id=turn_id))
            self._began_s = self._agent.services.monotonic()
        self._running += 1

    def _end(self, reason: TurnReason) -> None:
        self._running -= 1
        if self._running == 0:
            self._agent.end_turn(reason, self._began_s)
