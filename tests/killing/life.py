"""One life of the program on a workspace: it goes on with what it finds, and is killed at one of its events or comes to an end.

    python -m tests.killing.life FOLDER URL KILL_AT

`KILL_AT` counts the durable events of this life from 1; 0 is never, -1 is where the job's turn ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from lmtui.config import Config
from lmtui.core.events import ROOT, ApprovalRequested, Envelope, Outcome, SessionRenamed, TurnEnded
from lmtui.core.jobs import NewJob
from lmtui.core.sessions import Answer, Session
from lmtui.engine.session import EngineSession
from lmtui.runtime.host import Runtime
from tests.killing.script import JOB, JOBS_END, TASK

_MOST_TURNS = 6


class MortalRuntime(Runtime):
    """A runtime whose process dies once its sessions have written so many events."""

    def __init__(self, folder: Path, url: str, kill_at: int) -> None:
        super().__init__(folder, Config(url=url, sandbox="process", max_retries=0), is_attended=True)
        self._left = kill_at or sys.maxsize

    def _keep(self, session: EngineSession) -> EngineSession:
        session.subscribe(lambda envelope: self._take(session, envelope))
        return super()._keep(session)

    def _take(self, session: Session, envelope: Envelope) -> None:
        if envelope.event.durable:
            self._left -= 1
        is_jobs_end = isinstance(envelope.event, TurnEnded) and envelope.event.text.endswith(JOBS_END)
        if self._left == 0 or (self._left < 0 and is_jobs_end):
            os.kill(os.getpid(), signal.SIGKILL)
        if isinstance(envelope.event, ApprovalRequested):
            asyncio.get_running_loop().call_soon(session.answer, envelope.event.approval_id, Answer(Outcome.ONCE))


async def live(folder: Path, url: str, kill_at: int) -> None:
    """Do what is left to do of the task and of the job."""
    runtime = MortalRuntime(folder, url, kill_at)
    try:
        await _work(runtime)
        read = await runtime.jobs.read()
        if not read.records:
            await runtime.jobs.add(NewJob(text=JOB, mode="auto"))
        await runtime.jobs.serve(until_empty=True)
    finally:
        await runtime.close()


async def _work(runtime: Runtime) -> None:
    session, text = await _session(runtime)
    for _ in range(_MOST_TURNS):
        if _is_done(session):
            return
        session.submit(text)
        await session.wait_idle()
        text = "Go on."


async def _session(runtime: Runtime) -> tuple[Session, str]:
    """Return the task's session and what is to be said in it: the task itself where nobody said it yet."""
    for found in runtime.archive.sessions():
        session = await runtime.open_session(found.id)
        titles = [each.event.title for each in session.history() if isinstance(each.event, SessionRenamed)]
        if titles and titles[-1] == TASK:
            has_begun = any(each.event.kind == "message_added" for each in session.history())
            return session, "Go on." if has_begun else TASK
        await session.close()  # a job that has a mode of its own does not run in what is open
    return await runtime.new_session(), TASK


def _is_done(session: Session) -> bool:
    ends = [each.event for each in session.history() if isinstance(each.event, TurnEnded) and each.event.agent == ROOT]
    return bool(ends) and ends[-1].text.endswith("All done.")


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
