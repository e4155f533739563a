"""A turn that ends to wait for a time, and the session that goes on by itself then."""

from __future__ import annotations

from collections.abc import Callable

from lmtui.core.events import ROOT, TurnReason
from lmtui.core.messages import Completion
from lmtui.core.times import LocalZone
from lmtui.core.wait_events import Wait, WaitSet
from lmtui.engine.desk import Desk
from lmtui.engine.inbox import Said
from lmtui.engine.verdicts import GoOn, Stopped


def judge_wait(desk: Desk, completion: Completion, turn_id: str) -> GoOn | Stopped | None:
    """Return what follows where an answer whose calls were run says something of waiting; only the root agent waits."""
    if desk.agent != ROOT:
        return None
    wait = desk.waits.after(completion, desk.now())
    if isinstance(wait, str):
        return GoOn(wait) if wait else None
    desk.emit(WaitSet(until=wait.until, why=wait.why, turn_id=turn_id))
    return Stopped(TurnReason.WAITING, "")


class SessionSleep:
    """The wait of one session as the scheduler sees it.

    Args:
        desk: returns the root agent's.
        put: takes something up as a turn.
    """

    def __init__(self, desk: Callable[[], Desk], put: Callable[[Said], None]) -> None:
        self._desk = desk
        self._put = put

    @property
    def wait(self) -> Wait | None:
        """Return what the session waits for, None where it does not."""
        return self._desk().waits.current

    def wake(self) -> bool:
        """Go on; False where the session does not wait any more."""
        wait = self.wait
        if wait is None:
            return False
        now = self._desk().now().astimezone(LocalZone()).isoformat(timespec="seconds")
        self.remind(f"It is now {now}. You waited for: {wait.why or 'this time'}. Go on with the task.")
        return True

    def remind(self, text: str) -> None:
        """Let a turn begin with words of lmtui's own."""
        self._put(Said(text, is_reminder=True))

    def attend(self) -> None:
        """Ask from now on: somebody is there."""
        self._desk().approvals.attend()
