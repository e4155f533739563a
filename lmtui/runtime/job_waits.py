"""Sessions that wait for a time: for each there is a job that wakes it, as long as it waits."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.errors import JobsError
from lmtui.core.events import ROOT, Envelope, TurnStarted
from lmtui.core.jobs import MAX_TITLE_CHARS, JobKind, JobRecord
from lmtui.core.times import as_utc
from lmtui.core.wait_events import WaitSet
from lmtui.engine.session import EngineSession
from lmtui.runtime.jobs import WorkspaceJobs
from lmtui.store.open_waits import OpenWaits, open_wait


class SessionWaits:
    """Keeps the jobs in line with what the open sessions wait for.

    Args:
        jobs: where the jobs are.
        workspace: where the sessions are.
    """

    def __init__(self, jobs: WorkspaceJobs, workspace: Path) -> None:
        self._jobs = jobs
        self._open_waits = OpenWaits(workspace)
        self._waiting: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._order = asyncio.Lock()

    def follow(self, session: EngineSession) -> None:
        """Watch a session of ours; one that waits already has its job, or gets it."""
        session.subscribe(lambda envelope: self._take(session, envelope))
        last = open_wait(reversed(session.history())) if session.sleep.wait is not None else None
        if last is not None:
            self._take(session, last)

    async def recover(self) -> None:
        """Give the sessions that wait and that nobody has open their jobs, where a kill came before those were written."""
        try:
            found = await asyncio.to_thread(self._open_waits.look)
            records = (await self._jobs.read()).records if found else ()
            for wait in found:
                record = wake_job(wait.session_id, wait.event, wait.seq)
                begun = (each for each in records if each.begun_session == wait.session_id and each.begun_seq < wait.seq)
                running = next(begun, None)
                _ = await self._jobs.put(record.with_policy_of(running) if running is not None else record)
            await asyncio.to_thread(self._open_waits.remember)
        except JobsError as error:
            self._jobs.on_problem(error.full_text())

    async def settle(self) -> None:
        """Wait until all is written."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _take(self, session: EngineSession, envelope: Envelope) -> None:
        event = envelope.event
        if event.agent != ROOT:
            return
        if isinstance(event, WaitSet):
            self._waiting.add(session.id)
            running = self._jobs.runs.running.get(session.id)
            record = wake_job(session.id, event, envelope.seq)
            self._spawn(self._set(record.with_policy_of(running) if running is not None else record))
        elif isinstance(event, TurnStarted) and session.id in self._waiting:
            self._waiting.discard(session.id)
            self._spawn(self._over(session.id))

    async def _set(self, record: JobRecord) -> None:
        _ = await self._jobs.put(record)

    async def _over(self, session_id: str) -> None:
        def end(records: Sequence[JobRecord]) -> Iterator[JobRecord]:
            for each in records:
                if each.kind is JobKind.WAKE and each.session == session_id and each.due is not None and each.lease is None:
                    yield replace(each, due=None, last_outcome="over: the session went on before")

        await self._jobs.change(end)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._in_order(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_order(self, work: Coroutine[None, None, None]) -> None:
        async with self._order:
            try:
                await work
            except JobsError as error:
                self._jobs.on_problem(error.full_text())


def wake_job(session_id: str, event: WaitSet, seq: int) -> JobRecord:
    """Return the job that wakes a session, one for each wait: its source names the session and the event's place in the log."""
    until = as_utc(event.until)
    why = clean_line(event.why) or "a wait is over"
    return JobRecord(
        id=secrets.token_hex(4),
        text=why,
        title=why[:MAX_TITLE_CHARS],
        created=datetime.now(UTC),
        kind=JobKind.WAKE,
        schedule=f"at {until.isoformat(timespec='seconds').replace('+00:00', 'Z')}",
        due=until,
        session=session_id,
        source=f"wait {session_id} {seq}",
    )
