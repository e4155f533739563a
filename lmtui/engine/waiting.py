"""The way of the user's words into a session: queued, steered, taken back, and the commands that they run themselves."""

from __future__ import annotations

from collections.abc import Callable

from lmtui.engine.inbox import Inbox, Said
from lmtui.engine.worker import Worker


class WaitingWords:
    """What waits in one session; implements `core.sessions.Waiting`.

    Args:
        inbox: returns the queue in use.
        worker: runs what waits.
        is_closed: tells that nothing is taken up any more.
        rename: gives the session a title; called with the first words of a session that has none.
    """

    def __init__(
        self,
        inbox: Callable[[], Inbox],
        worker: Worker,
        is_closed: Callable[[], bool],
        rename: Callable[[str], None],
    ) -> None:
        self._inbox = inbox
        self._worker = worker
        self._is_closed = is_closed
        self._rename = rename

    def put(self, said: Said) -> None:
        """Take something up now or when its turn comes; nothing but blanks and no picture is nothing."""
        if self._is_closed() or not (said.text.strip() or said.images or said.is_compaction):
            return
        self._inbox().put(said)
        if not (said.is_command or said.is_reminder or said.is_compaction):
            self._rename((said.typed or said.text).strip().partition("\n")[0])
        self._worker.wake()

    def drop(self, index: int) -> str:
        """Take one back as it was typed."""
        text = self._inbox().drop(index)
        self._worker.show_inbox()
        return text

    def go_on(self) -> None:
        """Take up again what an interrupt left waiting."""
        inbox = self._inbox()
        if inbox.is_paused and not self._is_closed():
            inbox.go_on()
            self._worker.show_inbox()
            self._worker.wake()

    def run_command(self, command: str, *, is_told: bool = True) -> None:
        """Run a shell command of the user's own, behind the running turn."""
        self.put(Said(command.strip(), is_command=True, is_told=is_told))

    def make_room(self, focus: str = "") -> None:
        """Sum the conversation up now, before the next step of the running turn or at once."""
        self.put(Said(focus.strip(), is_compaction=True, is_steering=self._worker.is_running))
