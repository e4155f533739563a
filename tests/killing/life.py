"""One life of the program on a workspace: it goes on with what it finds, and is killed at one of its events or comes to an end.

    python -m tests.killing.life FOLDER URL PLACE

`PLACE` is a durable event of this life: its number from 1 on, or its kind for the first of a kind; `never`, and `job_end` for
the end of the job's turn.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from lmtui.app.host import Runtime
from lmtui.app.session_models import SessionProvider
from lmtui.config import Config
from lmtui.core.events import ROOT, ApprovalRequested, Envelope, Outcome, TurnEnded, TurnReason
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Answer, Session
from lmtui.engine.session import EngineSession
from lmtui.features.jobs.service import WorkspaceJobs
from lmtui.features.jobs.values import JobKind, Jobs, NewJob
from tests.killing.script import ENDS, JOB, JOBS_END, PLAN, TASK, WAIT

NEVER, JOB_END = "never", "job_end"
_MOST_TURNS = 6
_SLEEP_S = 60.0


class MortalRuntime(Runtime):
    """A runtime whose process dies at one event of its sessions."""

    def __init__(self, folder: Path, url: str, place: str) -> None:
        super().__init__(folder, Config(url=url, sandbox="process", max_retries=0), is_attended=True)
        self._place = place
        self._count = 0

    def _keep(self, session: EngineSession, asked: SessionProvider) -> EngineSession:
        session.subscribe(lambda envelope: self._take(session, envelope))
        return super()._keep(session, asked)

    def _take(self, session: Session, envelope: Envelope) -> None:
        event = envelope.event
        self._count += event.durable
        is_jobs_end = isinstance(event, TurnEnded) and event.text.endswith(JOBS_END)
        if self._place in (str(self._count), event.kind, JOB_END if is_jobs_end else ""):
            os.kill(os.getpid(), signal.SIGKILL)
        if isinstance(event, ApprovalRequested):
            asyncio.get_running_loop().call_soon(session.answer, event.approval_id, Answer(Outcome.ONCE))


async def live(folder: Path, url: str, place: str) -> None:
    """Do what is left to do of the tasks and of the job."""
    runtime = MortalRuntime(folder, url, place)
    try:
        for task in (PLAN, WAIT, TASK):
            await _work(runtime, task)
        read = await runtime.extensions[Jobs].read()
        if not any(each.kind is JobKind.TASK for each in read):
            await runtime.extensions[Jobs].add(NewJob(text=JOB, mode="auto"))
        await _serve(runtime)
    finally:
        await runtime.close()


async def _serve(runtime: Runtime) -> None:
    """Run the job, and wake what waits when it is time."""
    jobs = runtime.extensions[Jobs]
    assert isinstance(jobs, WorkspaceJobs)
    async with asyncio.timeout(_SLEEP_S):
        while True:
            await jobs.serve(until_empty=True)
            if all(each.due is None for each in await jobs.read()):
                return
            await asyncio.sleep(0.1)


async def _work(runtime: Runtime, task: str) -> None:
    """Go on with a task as far as it goes without a scheduler."""
    found = next((each for each in runtime.archive.sessions() if each.title == task), None)
    if found is not None and found.wakes is not None:
        return  # to be woken without being opened
    session = await (runtime.open_session(found.id) if found is not None else runtime.new_session())
    for _ in range(_MOST_TURNS):
        if _is_done(session, task) or _waits(session):
            break
        _say(session, task)
        await session.wait_idle()
    await session.close()  # a job that has a mode of its own does not run in what is open


def _say(session: Session, task: str) -> None:
    """Say the task where nobody said it yet, approve its plan, or let it go on."""
    if session.plans.open is not None:
        session.plans.approve(session.plans.open.proposal_id)
    elif any(each.event.kind == "message_added" for each in session.history()):
        session.submit("Go on.")
    else:
        session.set_mode(Mode.PLAN if task == PLAN else Mode.NORMAL)
        session.submit(task)


def _ends(session: Session) -> list[TurnEnded]:
    return [each.event for each in session.history() if isinstance(each.event, TurnEnded) and each.event.agent == ROOT]


def _is_done(session: Session, task: str) -> bool:
    return any(end.text.endswith(ENDS[task]) for end in _ends(session))


def _waits(session: Session) -> bool:
    ends = _ends(session)
    return bool(ends) and ends[-1].text.endswith("WAIT: in 1s: the build") and ends[-1].reason is TurnReason.WAITING


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
