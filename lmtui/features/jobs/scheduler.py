"""The scheduler of one workspace in one process: claims what is due, runs it, keeps its claims alive, and sleeps in between.

It knows no session and no database: both are behind `Run` and `core.jobs.JobTable`.  Several may work on one workspace.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from lmtui.core.errors import JobsError
from lmtui.core.jobs import Change, JobRecord, JobsRead, JobTable
from lmtui.features.jobs import leases
from lmtui.features.jobs.leases import IsAlive, Owner, RunMoment

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

MOST_AT_ONCE = 4
NAP_S = 0.5
EMPTY_NAP_S = 2.0  # without jobs, so that an idle host costs next to nothing
RENEW_S = 15.0
PATIENCE_S = 20.0
_JUMP_S = 2.0
_BUSY_AGAIN_S = 2.0


class Clock(Protocol):
    """Time, and waiting for it."""

    def wall(self) -> datetime:
        """Return the time in UTC."""

    def mono_s(self) -> float:
        """Return seconds on a clock that only goes forward and that all processes of this machine share."""

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        """Wait so long, or until `wake` is set."""


class JobInbox(Protocol):
    """A folder in which tasks are left.  Both methods block and raise `JobsError`."""

    def has_news(self) -> bool:
        """Tell whether there is something to look at."""

    def take(self) -> int:
        """Make jobs of what lies there and is whole; return how many."""


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


@dataclass(frozen=True, slots=True)
class Parts:
    """What a scheduler works with.

    `is_alive` and `may_take` are those of `claims.claim_due`; `on_change` gets all jobs whenever they changed, `on_problem` a
    line for the user.  `interval_s` bounds how long it relies on being told of changes; `most` is how many jobs run at once.
    """

    table: JobTable
    run: Run
    clock: Clock
    me: Owner
    is_alive: IsAlive
    new_token: Callable[[], str]
    may_take: Callable[[JobRecord], bool] = lambda _: True
    inbox: JobInbox | None = None
    on_change: Callable[[JobsRead], None] = lambda _: None
    on_problem: Callable[[str], None] = lambda _: None
    interval_s: Callable[[], float] = lambda: 60.0
    most: int = MOST_AT_ONCE


@dataclass(slots=True)
class _SeenJobs:
    """What the last look at table and clocks saw."""

    read: JobsRead = field(default_factory=JobsRead)
    version: int = -1
    at: RunMoment | None = None
    renewed_s: float = 0.0
    has_failed: bool = False
    told: set[str] = field(default_factory=set)


class Scheduler:
    """Runs jobs until it is cancelled; see `Parts`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seen = _SeenJobs()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._busy_until: dict[str, float] = {}
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look at the table now: this process changed it."""
        self._seen.version = -1
        self._wake.set()

    async def work(self, *, until_empty: bool = False, is_first: bool = False) -> None:
        """Run what is due; with `until_empty` return when nothing is any more.  Cancelled, it gives back what it was running.

        With `is_first` no other scheduler works on this workspace: the jobs that run at start are due.
        """
        try:
            await self._begin(is_first=is_first)
            while True:
                await self._look()
                if until_empty and await self._is_empty():
                    return
                await self._sleep()
        finally:
            await self._end()

    async def _begin(self, *, is_first: bool) -> None:
        now = self._parts.clock.wall()
        if not await asyncio.to_thread(self._parts.table.exists):
            return
        await self._change(lambda records: leases.healed(records, now))
        if is_first:
            await self._change(lambda records: leases.started_up(records, now))

    async def _look(self) -> None:
        """Do what has to be done now."""
        at = self._now()
        has_jumped = self._has_jumped(at)
        self._seen.at = at
        if has_jumped:
            await self._change(lambda records: leases.healed(records, at.wall))
        if self._parts.inbox is not None:
            await self._try(self._parts.inbox.take)
        if not await asyncio.to_thread(self._parts.table.exists):
            return
        self._wake.clear()
        self._seen.version = await self._try(self._parts.table.version) or 0
        if self._running and at.mono_s - self._seen.renewed_s >= RENEW_S:
            await self._renew(at)
        room = self._parts.most - len(self._running)
        if room > 0:
            await self._claim(at, room)
        read = await self._try(self._parts.table.read)
        if read is not None and read != self._seen.read:
            self._seen.read = read
            self._parts.on_change(read)

    async def _claim(self, at: RunMoment, room: int) -> None:
        parts = self._parts

        def may_take(record: JobRecord) -> bool:
            return self._busy_until.get(record.id, 0.0) <= at.mono_s and parts.may_take(record)

        def claim(records: Sequence[JobRecord]) -> list[JobRecord]:
            return [
                *leases.claim_due(
                    records, at, parts.me, new_token=parts.new_token, is_alive=parts.is_alive, may_take=may_take, most=room
                )
            ]

        if not await self._try(lambda: claim(parts.table.read().records)):
            return  # nothing is written where nothing is due
        for record in await self._change(claim):
            if record.lease is not None:
                task = asyncio.get_running_loop().create_task(
                    self._run_one(record, record.lease.token), name=f"job {record.id}"
                )
                task.add_done_callback(_log_failure)
                self._running[record.lease.token] = task
            elif not record.is_enabled:
                why = record.history.last_outcome
                parts.on_problem(f"job {record.id} ({record.title}) was {why}; `lmtui jobs resume {record.id}`")

    async def _run_one(self, record: JobRecord, token: str) -> None:
        """Run a claimed job and write down how it ended; stopped, its claim is given back."""

        async def began(session_id: str, seq: int) -> None:
            if not await self._change(lambda records: leases.begun(records, token, session_id, seq)):
                raise JobsError(f"job {record.id} is not this process's any more", "Another lmtui runs it.")

        end = RunEnd("failed inside lmtui; lmtui.log, in the state folder that `lmtui doctor` names, says where")
        try:
            end = await self._parts.run(record, began)
            if end.is_busy:
                self._busy_until[record.id] = self._parts.clock.mono_s() + _BUSY_AGAIN_S
        except JobsError as error:
            end = _GIVEN_BACK
            self._tell(error.full_text())
        except asyncio.CancelledError:
            end = _GIVEN_BACK
            raise
        finally:
            await _to_the_end(self._finish(token, end))
            del self._running[token]
            self._wake.set()

    async def _finish(self, token: str, end: RunEnd) -> None:
        now = self._parts.clock.wall()
        if end.is_busy:
            _ = await self._change(lambda records: leases.given_back(records, token))
        elif end.is_away:
            _ = await self._change(lambda records: leases.put_off(records, token, end.outcome, now))
        else:
            _ = await self._change(lambda records: leases.ended(records, token, end.outcome, now))
            if not end.outcome.startswith("error"):
                _ = await self._change(lambda records: leases.server_is_back(records, now))

    async def _renew(self, at: RunMoment) -> None:
        """Keep the claims; a job whose claim is another's by now is stopped."""
        self._seen.renewed_s = at.mono_s
        tokens = tuple(self._running)
        kept = await self._change(lambda records: leases.renewed(records, tokens, self._parts.me, at))
        held = {record.lease.token for record in kept if record.lease is not None}
        for token in tokens:
            if token not in held and not self._seen.has_failed and token in self._running:
                self._running[token].cancel()

    async def _sleep(self) -> None:
        """Wait until something is due or was changed, in naps: a clock that is set, or a sleep of the machine, is noticed."""
        parts = self._parts
        begin = parts.clock.mono_s()
        bound = min(parts.interval_s(), RENEW_S) if any(each.lease for each in self._seen.read.records) else parts.interval_s()
        while parts.clock.mono_s() - begin < bound and not self._wake.is_set():
            now = parts.clock.wall()
            due = leases.next_due(self._seen.read.records) if len(self._running) < parts.most else None
            nap_s = NAP_S if self._seen.read.records else EMPTY_NAP_S
            wait_s = nap_s if due is None else min(nap_s, (due - now).total_seconds())
            if due is not None and wait_s <= 0 and not await asyncio.to_thread(self._is_held_back, now):
                return
            await parts.clock.sleep(max(wait_s, 0.05) if wait_s > 0 else nap_s, self._wake)
            if await self._has_news() or self._has_jumped(self._now()):
                return

    def _is_held_back(self, now: datetime) -> bool:
        """Tell whether all that is due waits for something that the clock does not tell.  Blocks (disk)."""
        mono_s = self._parts.clock.mono_s()
        waiting = [each for each in self._seen.read.records if each.is_enabled and not each.lease]
        due = [each for each in waiting if each.next_time is not None and each.next_time <= now]
        return all(self._busy_until.get(each.id, 0.0) > mono_s or not self._parts.may_take(each) for each in due)

    async def _has_news(self) -> bool:
        parts, seen = self._parts, self._seen

        def look() -> bool:
            is_inbox = parts.inbox is not None and parts.inbox.has_news()
            return is_inbox or (parts.table.exists() and parts.table.version() != seen.version)

        return bool(await self._try(look))

    def _has_jumped(self, at: RunMoment) -> bool:
        """Tell whether the wall clock was set, or the machine slept."""
        seen = self._seen.at
        return seen is not None and abs((at.wall - seen.wall).total_seconds() - (at.mono_s - seen.mono_s)) > _JUMP_S

    def _now(self) -> RunMoment:
        return RunMoment(self._parts.clock.wall(), self._parts.clock.mono_s())

    async def _is_empty(self) -> bool:
        """Tell whether nothing runs and nothing is due that could be taken here."""
        if self._running:
            return False
        now = self._parts.clock.wall()
        if self._parts.inbox is not None and await self._try(self._parts.inbox.has_news):
            return False
        due = leases.next_due(self._seen.read.records)
        return due is None or due > now or await asyncio.to_thread(self._is_held_back, now)

    async def _end(self) -> None:
        """Stop what runs; each gives its claim back."""
        tasks = tuple(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_S)

    async def _change(self, change: Change) -> tuple[JobRecord, ...]:
        return await self._try(lambda: self._parts.table.change(change)) or ()

    async def _try(self, work: Callable[[], _T]) -> _T | None:
        """Do blocking work in a thread; a table that fails is told once and tried again with the next look."""
        try:
            found = await asyncio.to_thread(work)
        except JobsError as error:
            self._tell(error.full_text())
            return None
        self._seen.has_failed = False
        return found

    def _tell(self, problem: str) -> None:
        self._seen.has_failed = True
        if problem not in self._seen.told:
            self._seen.told.add(problem)
            self._parts.on_problem(problem)


async def _to_the_end(work: Coroutine[None, None, None]) -> None:
    """Do what must be done whole; a cancel is passed on when it is."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed inside", task.get_name(), exc_info=error)
