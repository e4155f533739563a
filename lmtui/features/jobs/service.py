"""The jobs of a workspace: added, listed, changed, run while this process lives, and told to whoever listens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lmtui.command_line import CheckRow
from lmtui.core.agent_events import WaitSet
from lmtui.core.errors import JobsError, UsageError
from lmtui.core.events import ROOT, Envelope, Event, Level, Notice, TurnStarted, WaitingChanged, WaitingTask
from lmtui.core.offers import Offers
from lmtui.core.permissions.rules import Mode
from lmtui.core.sanitize import sanitize_line
from lmtui.core.times import as_utc, zone_of
from lmtui.engine.session import EngineSession
from lmtui.features.jobs.inbox_folder import InboxFolder
from lmtui.features.jobs.job_runs import JobRuns, job_policy
from lmtui.features.jobs.job_table import JobFile, ServingLock
from lmtui.features.jobs.scheduler import EMPTY_NAP_S, Scheduler
from lmtui.features.jobs.schedules import due_after, first_time, fresh, read_schedule
from lmtui.features.jobs.values import (
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    JobKind,
    JobRecord,
    Jobs,
    NewJob,
    shown_schedule,
)
from lmtui.features.service import FeatureHost, WorkspaceFeature, index_row
from lmtui.paths import inbox_dir
from lmtui.store.session_logs import SessionStore
from lmtui.store.summaries import OpenWaits, open_wait


def told(records: Sequence[JobRecord]) -> WaitingChanged:
    """Return the jobs as the plan panel shows them: those that run or will, and when."""
    tasks = []
    for job in records:
        if job.claim or job.due:
            time = job.last_run if job.claim else job.next_time if job.is_enabled else None
            tasks.append(WaitingTask(job.id, job.title, shown_schedule(job), time))
    return WaitingChanged(jobs=tuple(tasks))


class WorkspaceJobs(WorkspaceFeature):
    """Implements `Jobs`; what changes and what goes wrong is told to the sessions that are open.

    `on_problem` gets a line for the user.
    """

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        extensions.add(Jobs, self)
        self.runs = JobRuns(host)
        self.on_problem: Callable[[str], None] = lambda text: self._emit(Notice(level=Level.WARNING, text=text))
        self._table = JobFile(host.workspace)
        self._serving = ServingLock(host.workspace)
        self._waits = SessionWaits(self, host.workspace)
        inbox = InboxFolder(inbox_dir(host.workspace), self._add_from_inbox, lambda: host.config.inbox == "on")
        self._scheduler = Scheduler(
            self._table, self.runs.run, inbox, self._serves, self._may_take, self._changed, self._tell_problem
        )
        self._task: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[Sequence[JobRecord]], None]] = []
        self.known: Sequence[JobRecord] = ()

    def follow(self, session: EngineSession, *, is_ours: bool) -> None:
        """Show a session that opens the jobs, and let what it waits for wake it."""
        if self.known:
            session.emit(told(self.known))
        if is_ours:
            self._waits.follow(session)

    def own_work(self) -> str:
        return "jobs" if any(each.is_enabled and each.state != "done" for each in self.known) else ""

    def let_go(self, session_id: str) -> bool:
        """Give a session that a job works in to the user."""
        return self.runs.let_go(session_id)

    def is_scheduled(self) -> bool:
        return self._serving.is_held or self._serving.is_taken()

    async def read(self) -> Sequence[JobRecord]:
        return await asyncio.to_thread(self._table.read)

    async def add(self, wanted: NewJob) -> JobRecord:
        record = await asyncio.to_thread(checked_job, wanted, self.host.workspace)
        await self.put(record)
        return record

    async def put(self, record: JobRecord) -> None:
        """Add a job as it is, unless one of its source is there already."""
        _ = await asyncio.to_thread(self._table.add, record)
        self._scheduler.wake()

    async def run_now(self, job_id: str) -> JobRecord:
        return await self._change_one(job_id, lambda job: replace(fresh(job), due=datetime.now(UTC), is_enabled=True))

    async def pause(self, job_id: str) -> JobRecord:
        return await self._change_one(job_id, lambda job: replace(job, is_enabled=False))

    async def resume(self, job_id: str) -> JobRecord:
        """Let a paused job run again at its next time; times that passed meanwhile do not count."""
        return await self._change_one(job_id, resumed)

    async def remove(self, job_id: str) -> JobRecord:
        """Remove a job; of a wait a mark stays, so that it is not made again when its session is opened."""
        record = find_job(await self.read(), job_id)
        if record.kind is JobKind.WAKE:
            return await self._change_one(record.id, lambda job: _given_up(job, "removed"))
        _ = await asyncio.to_thread(self._table.remove, record.id)
        self._scheduler.wake()
        return record

    async def change(self, change: Callable[[Sequence[JobRecord]], Iterable[JobRecord]]) -> None:
        """Change the table in one transaction."""
        if await asyncio.to_thread(self._table.change, change):
            self._scheduler.wake()

    def follow_changes(self, listener: Callable[[Sequence[JobRecord]], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def serve(self, *, until_empty: bool = False, interval_s: float = EMPTY_NAP_S) -> None:
        """Run what is due until this is cancelled, or with `until_empty` until nothing is any more.

        While another process serves the folder, only jobs of sessions that are open here are run.  `interval_s` is the most
        between two looks for a first job.  Cancelled, what runs is stopped and saved; the next reruns it.
        """
        if self._task is not None:
            raise JobsError("this process runs jobs already")
        self._task = asyncio.current_task()
        try:
            await self._scheduler.work(until_empty=until_empty, interval_s=interval_s)
        finally:
            self._task = None
            self._serving.release()

    async def stop(self) -> None:
        """Stop running jobs; what ran is run again by whoever comes next."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        """Write down what is waited for, and let go of the table."""
        await self.stop()
        await self._waits.settle()
        await asyncio.to_thread(self._table.close)

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Look at the table."""
        del is_offline
        return (await index_row("jobs", self._table),)

    def _emit(self, event: Event) -> None:
        for session in self.host.sessions:
            if not session.is_closed:
                session.emit(event)

    def _tell_problem(self, text: str) -> None:
        self.on_problem(text)

    def _add_from_inbox(self, text: str, source: str) -> None:
        _ = self._table.add(replace(new_record(text, ""), due=datetime.now(UTC), source=source))

    async def _serves(self) -> bool:
        """Serve the folder where nobody does, and tell whether this process does."""
        if not self._serving.is_held and self._serving.take():
            await self._waits.recover()
        return self._serving.is_held

    def _may_take(self, job: JobRecord) -> bool:
        """Tell whether a job can have its session: it is open here, or nobody's while this process serves the folder."""
        wanted = job.begun_session or job.session
        if self.runs.is_taken(job):
            return False
        if wanted and self.host.is_open(wanted):
            return True
        return self._serving.is_held and not (wanted and SessionStore(self.host.workspace).is_in_use(wanted))

    def _changed(self, records: Sequence[JobRecord]) -> None:
        self.known = records
        self._emit(told(records))
        for listener in tuple(self._listeners):
            listener(records)

    async def _change_one(self, job_id: str, change: Callable[[JobRecord], JobRecord]) -> JobRecord:
        (changed,) = await asyncio.to_thread(self._table.change, lambda records: [change(find_job(records, job_id))])
        self._scheduler.wake()
        return changed


def find_job(records: Sequence[JobRecord], wanted: str) -> JobRecord:
    """Return the job of an id, or of a unique end of one, or of a title.

    Raises:
        JobsError: none or several match.
    """
    wanted = wanted.strip()
    exact = [each for each in records if wanted in (each.id, each.title)]
    found = exact or [each for each in records if wanted and each.id.endswith(wanted)]
    if len(found) != 1:
        what = "several jobs are" if found else "no job is"
        raise JobsError(f"{what} called {wanted[:60]!r} here", "`lmtui jobs` lists them.")
    return found[0]


class SessionWaits:
    """Keeps the jobs in line with what the open sessions wait for.

    Args:
        jobs: where the jobs are.
        workspace: where the sessions are.
    """

    def __init__(self, jobs: WorkspaceJobs, workspace: Path) -> None:
        self._jobs = jobs
        self._open_waits = OpenWaits(workspace)
        self._last: asyncio.Task[None] | None = None

    def follow(self, session: EngineSession) -> None:
        """Watch a session of ours; one that waits already has its job, or gets it."""
        session.subscribe(lambda envelope: self._take(session, envelope), WaitSet)
        last = open_wait(reversed(session.history())) if session.sleep.wait is not None else None
        if last is not None:
            self._take(session, last)

    async def recover(self) -> None:
        """Give the sessions that wait and that nobody has open their jobs, where a kill came before those were written."""
        try:
            found = await asyncio.to_thread(self._open_waits.look)
            records = await self._jobs.read() if found else ()
            for wait in found:
                here = [each for each in records if each.begun_session == wait.session_id]
                running = next((each for each in here if each.begun_seq < wait.seq), None)
                await self._jobs.put(wake_job(wait.session_id, wait.event, wait.seq, running))
            await asyncio.to_thread(self._open_waits.remember)
        except JobsError as error:
            self._jobs.on_problem(error.full_text())

    async def settle(self) -> None:
        """Wait until all is written."""
        while self._last is not None and not self._last.done():
            await asyncio.wait({self._last})

    def _take(self, session: EngineSession, envelope: Envelope) -> None:
        event = envelope.event
        if event.agent != ROOT or not isinstance(event, WaitSet):
            return

        def over(later: Envelope) -> None:
            if later.event.agent == ROOT:
                leave()
                self._spawn(self._over(session.id))

        leave = session.subscribe(over, TurnStarted)
        running = self._jobs.runs.running.get(session.id)
        self._spawn(self._jobs.put(wake_job(session.id, event, envelope.seq, running)))

    async def _over(self, session_id: str) -> None:
        def end(records: Sequence[JobRecord]) -> Iterator[JobRecord]:
            for each in records:
                if each.kind is JobKind.WAKE and each.session == session_id and each.due is not None and not each.claim:
                    yield _given_up(each, "over: the session went on before")

        await self._jobs.change(end)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._last = asyncio.get_running_loop().create_task(self._in_order(self._last, work))

    async def _in_order(self, before: asyncio.Task[None] | None, work: Coroutine[None, None, None]) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await work
        except JobsError as error:
            self._jobs.on_problem(error.full_text())


def wake_job(session_id: str, event: WaitSet, seq: int, running: JobRecord | None) -> JobRecord:
    """Return the job that wakes a session, one for each wait: its source names the session and the event's place in the log.

    It has the policy of the job that was running in the session when the wait began.
    """
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
        mode=running.mode if running is not None else "",
        allow=running.allow if running is not None else (),
        deny=running.deny if running is not None else (),
        source=f"wait {session_id} {seq}",
    )


def new_record(text: str, title: str) -> JobRecord:
    """Return a job that is due as soon as it is put into the table with a time.

    Raises:
        UsageError: the text is empty, too long, or no text.
    """
    if not text.strip() or len(text) > MAX_TEXT_CHARS:
        raise UsageError("a job needs a text" if not text.strip() else f"a job's text has {MAX_TEXT_CHARS} characters at most")
    for each in (text, title):
        _check_text(each)
    name = sanitize_line(title.strip() or text.strip().partition("\n")[0])[:MAX_TITLE_CHARS]
    return JobRecord(id=secrets.token_hex(4), text=text, title=name, created=datetime.now(UTC))


def checked_job(wanted: NewJob, workspace: Path) -> JobRecord:
    """Return the record of a job that can be; blocks (disk).

    Raises:
        UsageError: its text, schedule, zone, mode, rules or session cannot be.
    """
    for each in (wanted.schedule, wanted.zone, wanted.session, *wanted.allow, *wanted.deny):
        _check_text(each)
    now = datetime.now(UTC)
    zone = zone_of(wanted.zone)
    schedule = read_schedule(wanted.schedule or "once", now, zone)
    due = first_time(schedule, now, zone)
    if due is not None and (now - due).total_seconds() > 1:
        raise UsageError(f"{wanted.schedule} is over", "Name a time to come.")
    if wanted.mode and wanted.mode not in tuple(Mode):
        raise UsageError(f"{wanted.mode!r} is not a mode", f"There are {', '.join(Mode)}.")
    if wanted.mode == Mode.TRY:
        raise UsageError("a job cannot use try mode: nobody would merge its changes", "Choose another mode.")
    record = replace(
        new_record(wanted.text, wanted.title),
        schedule=schedule,
        zone=wanted.zone,
        due=due,
        session=_own_session(wanted.session, workspace) if wanted.session else "",
        mode=wanted.mode,
        allow=wanted.allow,
        deny=wanted.deny,
        missed=wanted.missed,
    )
    _ = job_policy(record)
    return record


def _given_up(job: JobRecord, why: str) -> JobRecord:
    return replace(job, due=None, last_outcome=why)


def resumed(job: JobRecord) -> JobRecord:
    """Return a paused job as one that runs again at its next time; times that passed meanwhile do not count."""
    now = datetime.now(UTC)
    due = job.due if job.due is None or job.due >= now else due_after(job, now) or now
    return replace(fresh(job), is_enabled=True, due=due)


def _own_session(wanted: str, workspace: Path) -> str:
    store = SessionStore(workspace)
    session = store.path(wanted).stem
    if not store.is_ours(session):
        raise UsageError(f"session {session} was created elsewhere", "Give the job a new session.")
    return session


def _check_text(text: str) -> None:
    """Refuse what is not text: bytes that are not UTF-8 come from a command line as lone surrogates."""
    try:
        _ = text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "backslashreplace").decode()[:60]
        raise UsageError(f"{shown!r} is not text: character {error.start + 1} is half of one", "Write it in UTF-8.") from error
