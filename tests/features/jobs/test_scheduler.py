from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from lmtui.core.errors import JobsError
from lmtui.core.jobs import Change, JobHistory, JobRecord, JobsRead
from lmtui.features.jobs.leases import LEASE_S, Owner
from lmtui.features.jobs.scheduler import RENEW_S, Began, Parts, RunEnd, Scheduler

START = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
PATIENCE_S = 20.0


class ListTable:
    """A table in memory; `changed` counts changes by somebody else."""

    def __init__(self, *records: JobRecord) -> None:
        self.records = {each.id: each for each in records}
        self.changed = 0
        self.problem = ""

    def exists(self) -> bool:
        return True

    def version(self) -> int:
        return self.changed

    def read(self) -> JobsRead:
        if self.problem:
            raise JobsError(self.problem)
        return JobsRead(tuple(self.records.values()))

    def add(self, record: JobRecord) -> bool:
        self.records[record.id] = record
        self.changed += 1
        return True

    def change(self, change: Change) -> tuple[JobRecord, ...]:
        if self.problem:
            raise JobsError(self.problem)
        written = tuple(change(tuple(self.records.values())))
        self.records |= {each.id: each for each in written}
        return written

    def remove(self, job_id: str) -> bool:
        return self.records.pop(job_id, None) is not None

    def close(self) -> None:
        pass


class FastClock:
    """Clocks on which sleeping costs no time; `until_s` is when they stand still."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.offset = timedelta()
        self.until_s = float("inf")
        self.naps = 0
        self.at: dict[float, Callable[[], None]] = {}

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds) + self.offset

    def mono_s(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        await asyncio.sleep(0)
        if wake.is_set():
            return
        if self.seconds >= self.until_s:
            await asyncio.sleep(0.001)
            return
        self.naps += 1
        self.seconds = min(self.seconds + seconds, self.until_s)
        for due in [each for each in self.at if each <= self.seconds]:
            self.at.pop(due)()


@dataclass
class Stage:
    """A scheduler with all that it works with; a job is run by waiting for its gate, if it has one."""

    table: ListTable
    clock: FastClock = field(default_factory=FastClock)
    ran: list[tuple[str, float]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    looked_in: set[int] = field(default_factory=set)
    alive: bool = True
    running: int = 0
    most_running: int = 0
    interval_s: float = 60.0

    def scheduler(self, pid: int = 1) -> Scheduler:
        tokens = iter(range(1000))
        parts = Parts(
            self.table, self.run, clock=self.clock, me=Owner("here", pid, float(pid)), is_alive=lambda *_: self.alive,
            new_token=lambda: f"{pid}.{next(tokens)}", may_take=self.may_take, on_problem=self.told.append,
            interval_s=lambda: self.interval_s,
        )  # fmt: skip
        return Scheduler(parts)

    def may_take(self, record: JobRecord) -> bool:
        self.looked_in.add(threading.get_ident())
        return record.id not in self.busy

    async def run(self, record: JobRecord, began: Began) -> RunEnd:
        if record.id in self.away:
            return RunEnd("nothing answers", is_away=True)
        await began(f"session of {record.id}", 1)
        self.ran.append((record.id, self.clock.seconds))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if record.id in self.gates:
                await self.gates[record.id].wait()
        except asyncio.CancelledError:
            self.stopped.append(record.id)
            raise
        finally:
            self.running -= 1
        return RunEnd("done")

    async def work_until(self, is_so: Callable[[], bool], pid: int = 1, *, is_first: bool = False) -> None:
        task = asyncio.ensure_future(self.scheduler(pid).work(is_first=is_first))
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not is_so():
                    await asyncio.sleep(0.001)
        finally:
            task.cancel()
            await asyncio.wait({task})


def job(job_id: str = "a", due_s: float | None = 0.0, schedule: str = "once") -> JobRecord:
    due = START + timedelta(seconds=due_s) if due_s is not None else None
    return JobRecord(id=job_id, text=job_id, title=job_id, created=START, schedule=schedule, zone="UTC", due=due)


async def test_a_job_runs_within_a_second_of_its_time_and_what_another_process_adds_or_a_clock_makes_due_at_once() -> None:
    stage = Stage(ListTable(job("a", 100.3), job("b", 7.0)))
    await stage.work_until(lambda: len(stage.ran) == 2)
    assert [job_id for job_id, _ in stage.ran] == ["b", "a"]
    assert 7.0 <= stage.ran[0][1] < 8.0
    assert 100.3 <= stage.ran[1][1] < 101.3
    stage = Stage(ListTable(job("late", 10_000)), interval_s=3600.0)

    def add() -> None:
        assert stage.table.add(job("new", 50.0))

    stage.clock.at[50.0] = add
    await stage.work_until(lambda: bool(stage.ran))
    assert stage.ran[0][0] == "new"
    assert stage.ran[0][1] < 52.0
    stage = Stage(ListTable(job("a", 7200.0)), interval_s=3600.0)

    def forward() -> None:
        stage.clock.offset = timedelta(hours=3)

    stage.clock.at[10.0] = forward
    await stage.work_until(lambda: bool(stage.ran))
    assert stage.ran[0][1] < 12.0


async def test_a_clock_that_is_set_right_while_the_scheduler_sleeps_puts_no_daily_job_off() -> None:
    ahead_s = 86_400.0 * 300
    stage = Stage(
        ListTable(replace(job("a", ahead_s + 60.0, "daily 14:03"), history=JobHistory(last_run=START + timedelta(days=299))))
    )
    stage.clock.offset = timedelta(seconds=ahead_s)

    def set_right() -> None:
        stage.clock.offset = timedelta()

    stage.clock.at[10.0] = set_right
    await stage.work_until(lambda: bool(stage.ran))
    assert 60.0 <= stage.ran[0][1] < 61.5


async def test_only_so_many_jobs_run_at_once_and_all_of_them_in_the_end() -> None:
    stage = Stage(ListTable(*(job(str(number)) for number in range(10))))
    stage.gates = {str(number): asyncio.Event() for number in range(10)}

    def release() -> bool:
        for job_id, _ in stage.ran:
            stage.gates[job_id].set()
        return all(each.history.runs for each in stage.table.records.values())

    await stage.work_until(release)
    assert stage.most_running <= 4
    assert sorted(job_id for job_id, _ in stage.ran) == sorted(stage.table.records)


async def test_a_stop_gives_back_what_ran_and_the_next_scheduler_goes_on() -> None:
    stage = Stage(ListTable(job()))
    stage.gates["a"] = asyncio.Event()
    await stage.work_until(lambda: bool(stage.ran))
    given_back = stage.table.records["a"]
    assert stage.stopped == ["a"]
    assert (given_back.lease, given_back.history.attempts, given_back.history.begun_session) == (None, 0, "session of a")
    stage.gates["a"].set()
    await stage.work_until(lambda: stage.table.records["a"].history.runs == 1, pid=2)
    assert stage.table.records["a"].history.begun_session == ""


async def test_a_lease_is_kept_while_its_job_runs_and_a_job_whose_claim_was_lost_is_stopped() -> None:
    stage = Stage(ListTable(job()))
    stage.gates["a"] = asyncio.Event()
    stage.clock.until_s = 10 * LEASE_S
    await stage.work_until(lambda: stage.clock.seconds >= 10 * LEASE_S)
    assert (len(stage.ran), stage.most_running) == (1, 1)
    stage = Stage(ListTable(job()))
    stage.gates["a"] = asyncio.Event()

    def steal() -> None:
        held = stage.table.records["a"]
        assert held.lease is not None
        stage.table.records["a"] = replace(held, lease=replace(held.lease, token="another's"))

    stage.clock.at[20.0] = steal
    await stage.work_until(lambda: stage.stopped == ["a"])
    assert stage.clock.seconds < 20.0 + 2 * RENEW_S + 1
    lease = stage.table.records["a"].lease
    assert lease is not None
    assert lease.token == "another's"


async def test_a_job_whose_session_is_busy_elsewhere_is_tried_again() -> None:
    stage = Stage(ListTable(job()), busy={"a"})
    stage.clock.at[30.0] = stage.busy.clear
    await stage.work_until(lambda: bool(stage.ran))
    assert 30.0 <= stage.ran[0][1] < 40.0
    assert stage.looked_in
    assert threading.get_ident() not in stage.looked_in, "on the event loop"


async def test_a_job_whose_server_is_away_runs_when_it_is_back_and_what_waits_with_it_too() -> None:
    stage = Stage(ListTable(job("a"), job("b"), job("c", 800.0)), away={"a", "b"})
    stage.clock.at[700.0] = stage.away.clear
    await stage.work_until(lambda: len(stage.ran) == 3)
    assert sorted(job_id for job_id, _ in stage.ran) == ["a", "b", "c"]
    assert all(at_s < 810.0 for _, at_s in stage.ran)
    assert all(each.history.tries == 0 and each.history.again is None for each in stage.table.records.values())


async def test_the_jobs_of_a_start_run_once_in_the_first_scheduler_and_one_pass_runs_what_is_due_and_ends() -> None:
    stage = Stage(ListTable(job("a", None, "startup")))
    await stage.work_until(lambda: stage.table.records["a"].history.runs == 1, is_first=True)
    stage.table.records["b"] = job("b", 0.0)
    await stage.work_until(lambda: stage.table.records["b"].history.runs == 1, pid=2)
    assert [job_id for job_id, _ in stage.ran] == ["a", "b"]
    stage = Stage(ListTable(job("a"), job("b", 5000.0), job("c")))
    async with asyncio.timeout(PATIENCE_S):
        await stage.scheduler().work(until_empty=True)
    assert sorted(job_id for job_id, _ in stage.ran) == ["a", "c"]
    assert all(stage.table.records[each].history.runs == 1 for each in "ac")
    stage = Stage(ListTable(job("a")), away={"a"})
    async with asyncio.timeout(PATIENCE_S):
        await stage.scheduler().work(until_empty=True)
    assert (stage.table.records["a"].history.tries, stage.ran) == (1, [])


async def test_a_table_that_fails_and_a_job_that_ended_lmtui_three_times_are_told_once() -> None:
    stage = Stage(ListTable(job("a", 5.0)))
    stage.table.problem = "the disk is full"

    def mend() -> None:
        stage.table.problem = ""

    stage.clock.at[200.0] = mend
    await stage.work_until(lambda: bool(stage.ran))
    assert stage.told == ["the disk is full"]
    crashed = replace(job(), history=JobHistory(attempts=3))
    stage = Stage(ListTable(crashed))
    await stage.work_until(lambda: bool(stage.told))
    assert "given up" in stage.told[0]
    assert stage.ran == []


async def test_an_idle_scheduler_naps_twice_a_second() -> None:
    stage = Stage(ListTable(job("a", 3600.0)))
    stage.clock.until_s = 600.0
    await stage.work_until(lambda: stage.clock.seconds >= 600.0)
    assert stage.clock.naps <= 1250
