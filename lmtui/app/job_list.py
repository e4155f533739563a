"""The jobs of a workspace: added, listed, changed, run while this process lives, and told to whoever listens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lmtui.app.job_runs import JobHost, JobRuns
from lmtui.app.job_serving import Listeners, Serving, checked_job, resumed
from lmtui.core.agent_events import JobsChanged, WaitingJob, WaitSet
from lmtui.core.errors import JobsError
from lmtui.core.events import ROOT, Envelope, Event, TurnStarted
from lmtui.core.jobs import MAX_TITLE_CHARS, JobKind, JobRecord, JobsRead, NewJob, shown_schedule
from lmtui.core.sanitize import sanitize_line
from lmtui.core.times import as_utc
from lmtui.engine.session import EngineSession
from lmtui.store.job_table import JobFile
from lmtui.store.summaries import OpenWaits, open_wait


def told(records: Sequence[JobRecord]) -> JobsChanged:
    """Return the jobs as the plan panel shows them: those that run or will."""
    shown = [each for each in records if each.lease or each.due]
    return JobsChanged(jobs=tuple(WaitingJob(each.id, each.title, shown_schedule(each), shown_time(each)) for each in shown))


def shown_time(job: JobRecord) -> datetime | None:
    """Return the time that is next to a job, None where it is paused."""
    return job.last_run if job.lease is not None else job.next_time if job.is_enabled else None


def problems(read: JobsRead) -> list[str]:
    """Return what the user is told about a table: jobs that are not theirs, a file that was put aside."""
    return [
        *([foreign_text(read.foreign)] if read.foreign else []),
        *([f"the jobs in .lmagent/index.db could not be read; the file is now {read.set_aside}"] if read.set_aside else []),
    ]


def foreign_text(count: int) -> str:
    """Return what the user is told about jobs that are not theirs."""
    what, verbs = ("1 job", ("was", "does")) if count == 1 else (f"{count} jobs", ("were", "do"))
    return f"{what} in .lmagent/index.db {verbs[0]} not added by your lmtui in this folder, and {verbs[1]} not run"


class WorkspaceJobs:
    """Implements `core.jobs.Jobs`.

    Args:
        host: opens the sessions that jobs run in.
        tell: gives an event to every open session.
        on_problem: gets a line for the user.
    """

    def __init__(self, host: JobHost, tell: Callable[[Event], None], on_problem: Callable[[str], None]) -> None:
        self.runs = JobRuns(host)
        self._host = host
        self._tell = tell
        self.on_problem = on_problem
        self._table = JobFile(host.workspace)
        listeners = Listeners(self._changed, self._say, self.begin)
        self._serving = Serving(host, self._table, self.runs, listeners)
        self._listeners: list[Callable[[Sequence[JobRecord]], None]] = []
        self.known: Sequence[JobRecord] = ()
        self._problems: list[str] = []

    def is_scheduled(self) -> bool:
        """Tell whether a scheduler, this process's or another's, runs what is due.  Blocks (disk)."""
        return self._serving.is_anyone()

    async def read(self) -> JobsRead:
        """Return all jobs, oldest first."""
        return await asyncio.to_thread(self._table.read)

    async def add(self, wanted: NewJob) -> JobRecord:
        """Add a job and return it."""
        record = await asyncio.to_thread(checked_job, wanted, self._host.workspace)
        _ = await self.put(record)
        return record

    async def put(self, record: JobRecord) -> bool:
        """Add a job as it is; False where one of its source is there already."""
        is_new = await asyncio.to_thread(self._table.add, record)
        self._serving.wake()
        return is_new

    async def run_now(self, job_id: str) -> JobRecord:
        """Make a job due now, whatever its schedule."""
        now = datetime.now(UTC)
        return await self._change_one(
            job_id, lambda job: replace(job, due=now, is_enabled=True, attempts=0, tries=0, again=None)
        )

    async def pause(self, job_id: str) -> JobRecord:
        """Let a job run no more until it is resumed."""
        return await self._change_one(job_id, lambda job: replace(job, is_enabled=False))

    async def resume(self, job_id: str) -> JobRecord:
        """Let a paused job run again at its next time; times that passed meanwhile do not count."""
        return await self._change_one(job_id, resumed)

    async def remove(self, job_id: str) -> JobRecord:
        """Remove a job; of a wait a mark stays, so that it is not made again when its session is opened."""
        record = find_job((await self.read()).records, job_id)
        if record.kind is JobKind.WAKE:
            return await self._change_one(record.id, lambda job: replace(job, due=None, last_outcome="removed"))
        _ = await asyncio.to_thread(self._table.remove, record.id)
        self._serving.wake()
        return record

    async def change(self, change: Callable[[Sequence[JobRecord]], Iterable[JobRecord]]) -> None:
        """Change the table in one transaction."""
        if await asyncio.to_thread(self._table.change, change):
            self._serving.wake()

    def follow_changes(self, listener: Callable[[Sequence[JobRecord]], None]) -> Callable[[], None]:
        """Call `listener` with all jobs whenever they change."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def begin(self) -> None:
        """Do what comes before the first look of a scheduler at the table."""

    async def serve(self, *, until_empty: bool = False, interval_s: float = 0.0) -> None:
        """Run what is due until this is cancelled, or with `until_empty` until nothing is any more."""
        await self._serving.serve(until_empty=until_empty, interval_s=interval_s)

    async def stop(self) -> None:
        """Stop running jobs; what ran is run again by whoever comes next."""
        await self._serving.stop()

    async def close(self) -> None:
        """Let go of the table."""
        await asyncio.to_thread(self._table.close)

    def told(self) -> JobsChanged:
        """Return the jobs as the plan panel shows them: those that run or will."""
        return told(self.known)

    def _say(self, problem: str) -> None:
        self.on_problem(problem)

    def _changed(self, read: JobsRead) -> None:
        self.known = read.records
        found = problems(read)
        for problem in found:
            if problem not in self._problems:
                self.on_problem(problem)
        self._problems = found
        self._tell(self.told())
        for listener in tuple(self._listeners):
            listener(read.records)

    async def _change_one(self, job_id: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord:
        def work(records: Sequence[JobRecord]) -> list[JobRecord]:
            return [change(find_job(records, job_id))]

        changed = await asyncio.to_thread(self._table.change, work)
        if not changed:
            raise _no_job(job_id)
        self._serving.wake()
        return changed[0]


def find_job(records: Sequence[JobRecord], wanted: str) -> JobRecord:
    """Return the job of an id, or of a unique end of one, or of a title.

    Raises:
        JobsError: none or several match.
    """
    wanted = wanted.strip()
    exact = [each for each in records if wanted in (each.id, each.title)]
    found = exact or [each for each in records if wanted and each.id.endswith(wanted)]
    if len(found) != 1:
        raise _no_job(wanted, is_several=bool(found))
    return found[0]


def _no_job(wanted: str, *, is_several: bool = False) -> JobsError:
    what = "several jobs are" if is_several else "no job is"
    return JobsError(f"{what} called {wanted[:60]!r} here", "`lmtui jobs` lists them.")


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
    why = sanitize_line(event.why) or "a wait is over"
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
