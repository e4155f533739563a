"""The jobs of a host: what the parts of them share with its open sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lmtui.core.events import Event, Level, Notice
from lmtui.engine.session import EngineSession
from lmtui.runtime.job_runs import JobHost
from lmtui.runtime.job_waits import SessionWaits
from lmtui.runtime.jobs import WorkspaceJobs


class HostJobs(WorkspaceJobs):
    """Jobs that are told to the sessions that are open; what goes wrong is a notice in each of them.

    Args:
        sessions: returns those that are open.
    """

    def __init__(self, host: JobHost, sessions: Callable[[], Iterable[EngineSession]]) -> None:
        super().__init__(host, self._emit, self._notice)
        self._sessions = sessions
        self._waits = SessionWaits(self, host.workspace)

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Show a session that opens the jobs, and let what it waits for wake it."""
        if self.known:
            session.emit(self.told())
        if is_ours:
            self._waits.follow(session)

    async def begin(self) -> None:
        """Find the waits whose wakes a kill left unwritten."""
        await self._waits.recover()

    async def close(self) -> None:
        """Write down what is waited for, and let go of the table."""
        await self.stop()
        await self._waits.settle()
        await super().close()

    def _emit(self, event: Event) -> None:
        for session in self._sessions():
            if not session.is_closed:
                session.emit(event)

    def _notice(self, text: str) -> None:
        self._emit(Notice(level=Level.WARNING, text=text))
