"""The jobs of a workspace: added, listed, run while this process lives, and told to the open sessions."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lmtui.automation.inbox_folder import InboxFolder
from lmtui.automation.scheduler import Parts, Scheduler
from lmtui.automation.schedules import first_time, read_schedule, schedule_text
from lmtui.core.agent_events import Job, JobsChanged
from lmtui.core.clean import clean_line
from lmtui.core.errors import JobsError, UsageError
from lmtui.core.events import Event
from lmtui.core.jobs import MAX_TEXT_CHARS, MAX_TITLE_CHARS, JobKind, JobRecord, JobsRead, NewJob
from lmtui.core.rules import Mode
from lmtui.core.times import zone_of
from lmtui.paths import inbox_dir
from lmtui.runtime.job_runs import JobHost, JobRuns, job_policy
from lmtui.runtime.processes import is_alive, this_process
from lmtui.store.jobs import JobFile, Presence
from lmtui.store.sessions import SessionStore


class SystemClock:
    """The clocks of this machine; implements `automation.scheduler.Clock`."""

    def wall(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def mono_s(self) -> float:
        """Return seconds on the clock that only goes forward."""
        return time.monotonic()

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        """Wait so long, or until `wake` is set."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), seconds)


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
        self._scheduler: Scheduler | None = None
        self._task: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[Sequence[JobRecord]], None]] = []
        self.known: Sequence[JobRecord] = ()
        self._foreign = 0

    def is_scheduled(self) -> bool:
        """Tell whether a scheduler, this process's or another's, runs what is due.  Blocks (disk)."""
        return Presence(self._host.workspace).is_anyone()

    async def read(self) -> JobsRead:
        """Return all jobs, oldest first."""
        return await asyncio.to_thread(self._table.read)

    async def add(self, wanted: NewJob) -> JobRecord:
        """Add a job and return it."""
        record = await asyncio.to_thread(self._checked, wanted)
        _ = await self.put(record)
        return record

    async def put(self, record: JobRecord) -> bool:
        """Add a job as it is; False where one of its source is there already."""
        is_new = await asyncio.to_thread(self._table.add, record)
        self._wake()
        return is_new

    async def run_now(self, job_id: str) -> JobRecord:
        """Make a job due now, whatever its schedule."""
        now = datetime.now(UTC)
        return await self._change_one(job_id, lambda job: replace(job, due=now, is_enabled=True, attempts=0))

    async def pause(self, job_id: str) -> JobRecord:
        """Let a job run no more until it is resumed."""
        return await self._change_one(job_id, lambda job: replace(job, is_enabled=False))

    async def resume(self, job_id: str) -> JobRecord:
        """Let a paused job run again at its next time; times that passed meanwhile do not count."""
        return await self._change_one(job_id, _resumed)

    async def remove(self, job_id: str) -> JobRecord:
        """Remove a job; of a wait a mark stays, so that it is not made anew when its session is opened."""
        record = find_job((await self.read()).records, job_id)
        if record.kind is JobKind.WAKE:
            return await self._change_one(record.id, lambda job: replace(job, due=None, last_outcome="removed"))
        _ = await asyncio.to_thread(self._table.remove, record.id)
        self._wake()
        return record

    async def change(self, change: Callable[[Sequence[JobRecord]], Iterable[JobRecord]]) -> None:
        """Change the table in one transaction."""
        if await asyncio.to_thread(self._table.change, change):
            self._wake()

    def follow_changes(self, listener: Callable[[Sequence[JobRecord]], None]) -> Callable[[], None]:
        """Call `listener` with all jobs whenever they change."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def serve(self, *, until_empty: bool = False, interval_s: float = 0.0) -> None:
        """Run what is due until this is cancelled, or with `until_empty` until nothing is any more.

        Raises:
            JobsError: this process does that already.
        """
        if self._task is not None:
            raise JobsError("this process runs jobs already")
        self._task = asyncio.current_task()
        presence = Presence(self._host.workspace)
        entering = asyncio.ensure_future(asyncio.to_thread(presence.enter))
        try:
            is_first = await asyncio.shield(entering)
            self._scheduler = self._make_scheduler(interval_s)
            await self._scheduler.work(until_empty=until_empty, is_first=is_first)
        finally:
            self._scheduler = self._task = None
            await asyncio.wait({entering})  # who is cancelled while it enters has to leave as well
            presence.leave()

    async def stop(self) -> None:
        """Stop running jobs; what ran is run again by whoever comes next."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        """Let go of the table."""
        await asyncio.to_thread(self._table.close)

    def told(self) -> JobsChanged:
        """Return the jobs as the plan panel shows them: those that run or will."""
        shown = [each for each in self.known if each.lease or each.due]
        return JobsChanged(jobs=tuple(Job(each.id, each.title, shown_schedule(each), shown_time(each)) for each in shown))

    def _make_scheduler(self, interval_s: float) -> Scheduler:
        clock = SystemClock()
        parts = Parts(
            table=self._table,
            run=self.runs.run,
            clock=clock,
            me=this_process(),
            is_alive=is_alive,
            new_token=lambda: secrets.token_hex(8),
            may_take=self.runs.may_take,
            inbox=InboxFolder(
                inbox_dir(self._host.workspace), self._add_from_inbox, self._trusts_inbox, self._say_soon(), clock.mono_s
            ),
            on_change=self._changed,
            on_problem=self.on_problem,
            interval_s=lambda: interval_s or self._host.config.scheduler_interval_s,
        )
        return Scheduler(parts)

    def _say_soon(self) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()
        return lambda text: (loop.call_soon_threadsafe(self.on_problem, text), None)[1]

    def _trusts_inbox(self) -> bool:
        return self._host.config.inbox == "on"

    def _add_from_inbox(self, text: str, source: str) -> None:
        _ = self._table.add(replace(new_record(text, ""), due=datetime.now(UTC), source=source))

    def _changed(self, read: JobsRead) -> None:
        self.known = read.records
        if read.foreign > self._foreign:
            self.on_problem(foreign_text(read.foreign))
        self._foreign = read.foreign
        self._tell(self.told())
        for listener in tuple(self._listeners):
            listener(read.records)

    def _wake(self) -> None:
        if self._scheduler is not None:
            self._scheduler.wake()

    async def _change_one(self, job_id: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord:
        def work(records: Sequence[JobRecord]) -> list[JobRecord]:
            return [change(find_job(records, job_id))]

        changed = await asyncio.to_thread(self._table.change, work)
        if not changed:
            raise _no_job(job_id)
        self._wake()
        return changed[0]

    def _checked(self, wanted: NewJob) -> JobRecord:
        """Return the record of a job that can be."""
        now = datetime.now(UTC)
        zone = zone_of(wanted.zone)
        schedule = read_schedule(wanted.schedule or "once", now, zone)
        due = first_time(schedule, now, zone)
        if due is not None and (now - due).total_seconds() > 1:
            raise UsageError(f"{wanted.schedule} is over", "Name a time to come.")
        session = wanted.session
        if session:
            store = SessionStore(self._host.workspace)
            session = store.path(session).stem
            if not store.is_ours(session):
                raise UsageError(f"session {session} was not made by your lmtui", "Let the job have a fresh one.")
        if wanted.mode and wanted.mode not in tuple(Mode):
            raise UsageError(f"{wanted.mode!r} is no mode", f"There are {', '.join(Mode)}.")
        record = replace(
            new_record(wanted.text, wanted.title),
            schedule=schedule_text(schedule),
            zone=wanted.zone,
            due=due,
            session=session,
            mode=wanted.mode,
            allow=wanted.allow,
            deny=wanted.deny,
            missed=wanted.missed,
        )
        _ = job_policy(record)
        return record


def new_record(text: str, title: str) -> JobRecord:
    """Return a job that is due as soon as it is put into the table with a time.

    Raises:
        UsageError: the text is empty or too long.
    """
    if not text.strip() or len(text) > MAX_TEXT_CHARS:
        raise UsageError("a job needs a text" if not text.strip() else f"a job's text has {MAX_TEXT_CHARS} characters at most")
    name = clean_line(title.strip() or text.strip().partition("\n")[0])[:MAX_TITLE_CHARS]
    return JobRecord(id=secrets.token_hex(4), text=text, title=name, created=datetime.now(UTC))


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


def _resumed(job: JobRecord) -> JobRecord:
    now = datetime.now(UTC)
    zone = zone_of(job.zone)
    due = job.due
    if due is not None and due < now:
        schedule = read_schedule(job.schedule, now, zone)
        later = first_time(schedule, now, zone)
        due = later if later is not None and later > now else now
    return replace(job, is_enabled=True, attempts=0, due=due)


def shown_schedule(job: JobRecord) -> str:
    """Return a job's schedule for a person, or what goes on with it."""
    if job.lease is not None:
        return "running"
    if job.kind is JobKind.WAKE:
        return "wakes a session"
    return job.schedule + (f" {job.zone}" if job.zone else "")


def shown_time(job: JobRecord) -> datetime | None:
    """Return the time that stands beside a job, None where it is paused."""
    return job.last_run if job.lease is not None else job.due if job.is_enabled else None


def foreign_text(count: int) -> str:
    """Return what the user is told of jobs that are not theirs."""
    what, verbs = ("1 job", ("was", "does")) if count == 1 else (f"{count} jobs", ("were", "do"))
    return f"{what} in .lmagent/index.db {verbs[0]} not added by your lmtui in this folder, and {verbs[1]} not run"
