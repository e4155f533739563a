"""Runs the jobs of one workspace in one process: claims what is due, runs it, and sleeps in between.

It knows no session: those are behind `Run`.  One process at a time serves a workspace; the others run only what belongs to
sessions that they have open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from lmtui.core.errors import JobsError
from lmtui.engine.tasks import to_the_end
from lmtui.features.jobs import schedules
from lmtui.features.jobs.inbox_folder import InboxFolder
from lmtui.features.jobs.job_table import JobFile
from lmtui.features.jobs.values import JobRecord

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

MOST_AT_ONCE = 4
NAP_S = 0.5
INBOX_NAP_S = 2.0
EMPTY_NAP_S = 10.0  # without jobs and inbox, so that an idle host costs next to nothing
PATIENCE_S = 20.0
_ENTRY_NAPS_S = (0.01, 0.02, 0.0)  # whoever asks whether the workspace is served holds its lock for a moment


class Clock:
    """The time, and waiting for it."""

    def wall(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        """Wait so long, or until `wake` is set."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), seconds)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended: in words for the table.

    With `is_busy` it could not begin, as another lmtui has its session; with `is_away` the model server did not answer.
    """

    outcome: str
    is_busy: bool = False
    is_away: bool = False


_GIVEN_BACK = RunEnd("", is_busy=True)

Began = Callable[[str, int], Awaitable[None]]
"""Takes the session that a job runs in and the session's last event, before anything is done in it."""

Run = Callable[[JobRecord, Began], Coroutine[None, None, RunEnd]]
"""Runs a job to its end; tells where before anything is done there.  Cancelled, it saves what it did and passes it on."""


@dataclass(eq=False, slots=True)
class Scheduler:
    """Runs jobs until it is cancelled.

    `serves` tells whether this process serves the workspace, and takes that over where nobody does.  `may_take` tells whether
    this process can have the session that a job needs; it blocks (disk).  `on_change` gets all jobs whenever they changed,
    `on_problem` a line for the user.
    """

    table: JobFile
    run: Run
    inbox: InboxFolder
    serves: Callable[[], Awaitable[bool]]
    may_take: Callable[[JobRecord], bool]
    on_change: Callable[[Sequence[JobRecord]], None]
    on_problem: Callable[[str], None]
    clock: Clock = field(default_factory=Clock)
    _records: Sequence[JobRecord] = field(init=False, default=())
    _version: int = field(init=False, default=-1)
    _is_serving: bool = field(init=False, default=False)
    _told: set[str] = field(init=False, default_factory=set)
    _running: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)  # by claim
    _wake: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def wake(self) -> None:
        """Look at the table now: this process changed it."""
        self._version = -1
        self._wake.set()

    async def work(self, *, until_empty: bool = False, interval_s: float = EMPTY_NAP_S) -> None:
        """Run what is due; with `until_empty` return when nothing is any more.  Cancelled, it gives back what it was running.

        The jobs that run at start are due if nobody served the workspace before.
        `interval_s` is the most between two looks for a first job.
        """
        try:
            for nap_s in _ENTRY_NAPS_S:
                self._is_serving = await self.serves()
                if self._is_serving:
                    await self._change(lambda records: [*schedules.started_up(records, self.clock.wall())])
                    break
                await asyncio.sleep(nap_s)
            while True:
                self._wake.clear()
                await self._look()
                if until_empty and not self._running and await self._try(self._is_empty) is not False:
                    return
                await self.clock.sleep(self._nap_s(interval_s), self._wake)
                self._is_serving = await self.serves()
        finally:
            await self._end()

    async def _look(self) -> None:
        """Do what has to be done now."""
        before = self._records
        for record in await self._try(self._claim) or ():
            if record.claim:
                task = asyncio.get_running_loop().create_task(self._run_one(record), name=f"job {record.id}")
                task.add_done_callback(_log_failure)
                self._running[record.claim] = task
            elif not record.is_enabled:
                why = record.last_outcome
                self.on_problem(f"job {record.id} ({record.title}) was {why}; `lmtui jobs resume {record.id}`")
        while self.inbox.problems:
            self.on_problem(self.inbox.problems.pop(0))
        if self._records != before:
            self.on_change(self._records)

    def _claim(self) -> Sequence[JobRecord]:
        """Claim what is due, and return what was changed; the table is read only where it may be another.  Blocks (disk)."""
        if self._is_serving:
            self.inbox.take()
        if not self.table.exists():
            return ()
        if (version := self.table.version()) != self._version:
            self._version = version  # before it is read: who changes it meanwhile says so after this
            self._records = self.table.read()
        changed = self.table.change(self._changes) if self._changes(self._records) else ()
        self._records = self.table.read() if changed else self._records
        return changed

    def _changes(self, records: Sequence[JobRecord]) -> Sequence[JobRecord]:
        """Return the jobs that are claimed, and those whose run died."""
        found = {job.id: job for job in schedules.recovered(records, tuple(self._running), self.may_take)}
        free, now = [found.get(job.id, job) for job in records], self.clock.wall()
        most = MOST_AT_ONCE - len(self._running)
        found |= {job.id: job for job in schedules.claim_due(free, now, self.may_take, most)}
        return [*found.values()]

    async def _run_one(self, record: JobRecord) -> None:
        """Run a claimed job and write down how it ended; stopped, its claim is given back."""

        async def began(session_id: str, seq: int) -> None:
            if not await self._update(record, lambda job: schedules.begun(job, session_id, seq)):
                raise JobsError(f"job {record.id} is not this process's any more", "Another lmtui runs it.")

        end = RunEnd("Internal error. Details are in lmtui.log (`lmtui doctor` shows the path).")
        try:
            end = await self.run(record, began)
        except JobsError as error:
            end = _GIVEN_BACK
            self._tell(error.full_text())
        except asyncio.CancelledError:
            end = _GIVEN_BACK
            raise
        finally:
            await to_the_end(self._finish(record, end))
            del self._running[record.claim]
            self.wake()

    async def _finish(self, record: JobRecord, end: RunEnd) -> None:
        now = self.clock.wall()
        if end.is_busy:
            await self._update(record, schedules.given_back)
        elif end.is_away:
            await self._update(record, lambda job: schedules.put_off(job, end.outcome, now))
        else:
            await self._update(record, lambda job: schedules.ended(job, end.outcome, now))
            if not end.outcome.startswith("error"):
                await self._change(lambda records: [*schedules.server_is_back(records, now)])

    def _nap_s(self, interval_s: float) -> float:
        """Return how long nothing is due, in short naps: a clock that is set, or a sleep of the machine, is noticed."""
        if not self._records:
            return max(0.05, min(interval_s, INBOX_NAP_S if self.inbox.may_read() else EMPTY_NAP_S))
        due = schedules.next_due(self._records)
        left_s = (due - self.clock.wall()).total_seconds() if due is not None else NAP_S
        return min(NAP_S, max(left_s, 0.05)) if left_s > 0 else NAP_S

    def _is_empty(self) -> bool:
        """Tell whether nothing is due that could be taken here.  Blocks (disk)."""
        now = self.clock.wall()
        if self._is_serving and self.inbox.has_news():
            return False
        return not any(schedules.is_due(job, now) and self.may_take(job) for job in self._records)

    async def _end(self) -> None:
        """Stop what runs; each gives its claim back."""
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)

    async def _update(self, record: JobRecord, change: Callable[[JobRecord], JobRecord]) -> Sequence[JobRecord]:
        return await self._change(lambda records: [change(job) for job in records if job.claim == record.claim])

    async def _change(self, change: Callable[[Sequence[JobRecord]], Sequence[JobRecord]]) -> Sequence[JobRecord]:
        return await self._try(lambda: self.table.change(change)) or ()

    async def _try(self, work: Callable[[], _T]) -> _T | None:
        """Do blocking work in a thread; a table that fails is told once and tried again with the next look."""
        try:
            return await asyncio.to_thread(work)
        except JobsError as error:
            self._version = -1
            self._tell(error.full_text())
            return None

    def _tell(self, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self.on_problem(problem)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed inside", task.get_name(), exc_info=error)
