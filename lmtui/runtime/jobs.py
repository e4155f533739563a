"""The jobs of a workspace: added, listed, changed, run while this process lives, and told to whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lmtui.core.agent_events import JobsChanged
from lmtui.core.errors import JobsError
from lmtui.core.events import Event
from lmtui.core.jobs import JobKind, JobRecord, JobsRead, NewJob
from lmtui.runtime.job_runs import JobHost, JobRuns
from lmtui.runtime.job_serving import Listeners, Serving
from lmtui.runtime.job_words import problems, told
from lmtui.runtime.new_jobs import checked_job, resumed
from lmtui.store.jobs import JobFile


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
        """Remove a job; of a wait a mark stays, so that it is not made anew when its session is opened."""
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
