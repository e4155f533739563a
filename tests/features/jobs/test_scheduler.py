from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from lmtui.core.errors import JobsError
from lmtui.features.jobs.inbox_folder import InboxFolder
from lmtui.features.jobs.job_table import JobFile
from lmtui.features.jobs.scheduler import Began, Clock, RunEnd, Scheduler
from lmtui.features.jobs.values import JobRecord
from tests.waiting import PATIENCE_S, until

START = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)


class FastClock(Clock):
    """Clocks on which sleeping costs no time, while no job is at work; `until_s` is when they stop."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.offset = timedelta()
        self.until_s = float("inf")
        self.is_at_work: Callable[[], bool] = bool
        self.at: dict[float, Callable[[], object]] = {}

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds) + self.offset

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        await asyncio.sleep(0)
        while self.is_at_work() and not wake.is_set():
            await asyncio.sleep(0)
        if wake.is_set():
            return
        if self.seconds >= self.until_s:
            await asyncio.sleep(0.001)
            return
        self.seconds = min(self.seconds + seconds, self.until_s)
        for due in [each for each in self.at if each <= self.seconds]:
            self.at.pop(due)()


@dataclass
class World:
    """A table, a clock, and what schedulers did; a job is run by waiting for its gate, if it has one."""

    table: JobFile
    clock: FastClock = field(default_factory=FastClock)
    ran: list[tuple[str, float]] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    open_here: set[str] = field(default_factory=set)
    looked_in: set[int] = field(default_factory=set)
    serves: bool = True
    running: int = 0
    at_gates: int = 0
    most_running: int = 0

    def is_at_work(self) -> bool:
        return sum(each.get_name().startswith("job ") for each in asyncio.all_tasks()) > self.at_gates

    def job(self, job_id: str = "a") -> JobRecord:
        return next(each for each in self.table.read() if each.id == job_id)

    def scheduler(self) -> Scheduler:
        self.clock.is_at_work = self.is_at_work
        return Scheduler(
            self.table, self.run, InboxFolder(Path("/nowhere"), print, bool), self.is_serving, self.may_take,
            on_change=lambda _: None, on_problem=self.told.append, clock=self.clock,
        )  # fmt: skip

    async def is_serving(self) -> bool:
        return self.serves

    def may_take(self, record: JobRecord) -> bool:
        self.looked_in.add(threading.get_ident())
        return record.id not in self.busy and (self.serves or record.id in self.open_here)

    async def run(self, record: JobRecord, began: Began) -> RunEnd:
        if record.id in self.away:
            return RunEnd("nothing answers", is_away=True)
        await began(f"session of {record.id}", 1)
        self.ran.append((record.id, self.clock.seconds))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if record.id in self.gates:
                self.at_gates += 1
                await self.gates[record.id].wait()
                self.at_gates -= 1
        except asyncio.CancelledError:
            self.stopped.append(record.id)
            raise
        finally:
            self.running -= 1
        return RunEnd("done")

    async def one_pass(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.scheduler().work(until_empty=True)

    async def work_until(self, is_so: Callable[[], bool]) -> None:
        task = asyncio.ensure_future(self.scheduler().work())
        try:
            await until(is_so)
        finally:
            task.cancel()
            await asyncio.wait({task})


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[..., World]:
    numbers = count()

    def make(*jobs: JobRecord) -> World:
        world = World(JobFile(tmp_path / str(next(numbers))))
        for each in jobs:
            assert world.table.add(each)
        return world

    return make


Make = Callable[..., World]


def job(job_id: str = "a", due_s: float | None = 0.0, schedule: str = "once") -> JobRecord:
    due = START + timedelta(seconds=due_s) if due_s is not None else None
    return JobRecord(id=job_id, text=job_id, title=job_id, created=START, schedule=schedule, zone="UTC", due=due)


async def test_a_job_runs_within_a_second_of_its_time_and_what_is_added_or_a_clock_makes_due_at_once(
    make_world: Make, tmp_path: Path
) -> None:
    world = make_world(job("a", 100.3), job("b", 7.0), job("late", 10_000.0))
    world.clock.at[50.0] = lambda: JobFile(tmp_path / "0").add(job("by another", 50.0))
    world.clock.at[60.0] = lambda: world.table.add(job("from the inbox", 60.0))
    await world.work_until(lambda: len(world.ran) == 4)
    assert [job_id for job_id, _ in world.ran] == ["b", "by another", "from the inbox", "a"]
    for (_, at_s), due_s in zip(world.ran, (7.0, 50.0, 60.0, 100.3), strict=True):
        assert due_s <= at_s < due_s + 1.5
    world = make_world(job("a", 7200.0))
    world.clock.at[10.0] = lambda: setattr(world.clock, "offset", timedelta(hours=3))
    await world.work_until(lambda: bool(world.ran))
    assert world.ran[0][1] < 12.0


async def test_only_so_many_jobs_run_at_once_and_all_of_them_in_the_end(make_world: Make) -> None:
    names = [str(number) for number in range(10)]
    world = make_world(*map(job, names))
    world.gates = {name: asyncio.Event() for name in names}

    def release() -> bool:
        for job_id, _ in world.ran:
            world.gates[job_id].set()
        return all(each.runs for each in world.table.read())

    await world.work_until(release)
    assert world.most_running <= 4
    assert sorted(job_id for job_id, _ in world.ran) == names


async def test_a_stop_gives_back_what_ran_and_the_next_scheduler_goes_on_also_after_a_kill(make_world: Make) -> None:
    world = make_world(job())
    world.gates["a"] = asyncio.Event()
    await world.work_until(lambda: bool(world.ran))
    given_back = world.job()
    assert world.stopped == ["a"]
    assert (given_back.claim, given_back.attempts, given_back.begun_session) == ("", 0, "session of a")
    world.table.change(lambda jobs: [replace(each, claim="of a process that died") for each in jobs])
    world.gates["a"].set()
    await world.work_until(lambda: world.job().runs == 1)
    assert (world.job().claim, world.job().begun_session) == ("", "")


async def test_who_does_not_serve_runs_what_is_open_here_and_takes_over_when_nobody_serves(make_world: Make) -> None:
    world = make_world(job("a"), job("b"), job("start", None, "startup"), replace(job("c"), claim="of another"))
    world.serves, world.open_here = False, {"b"}
    await world.one_pass()
    assert [job_id for job_id, _ in world.ran] == ["b"]

    def died() -> None:
        world.serves = True

    world.clock.at[30.0] = died
    await world.work_until(lambda: len(world.ran) == 3)
    assert sorted(job_id for job_id, _ in world.ran[1:]) == ["a", "c"], "what runs at start does not: it was served before"
    assert world.ran[1][1] >= 30.0


async def test_a_job_whose_session_is_busy_elsewhere_is_tried_again(make_world: Make) -> None:
    world = make_world(job())
    world.busy.add("a")
    world.clock.at[30.0] = world.busy.clear
    await world.work_until(lambda: bool(world.ran))
    assert 30.0 <= world.ran[0][1] < 40.0
    assert world.looked_in
    assert threading.get_ident() not in world.looked_in, "on the event loop"


async def test_a_job_whose_server_is_away_runs_when_it_is_back_and_what_waits_with_it_too(make_world: Make) -> None:
    world = make_world(job("a"), job("b"), job("c", 800.0))
    world.away |= {"a", "b"}
    world.clock.at[700.0] = world.away.clear
    await world.work_until(lambda: len(world.ran) == 3)
    assert sorted(job_id for job_id, _ in world.ran) == ["a", "b", "c"]
    assert all(at_s < 810.0 for _, at_s in world.ran)
    assert all(each.tries == 0 and each.again is None for each in world.table.read())


async def test_the_jobs_of_a_start_run_once_and_one_pass_runs_what_is_due_and_ends(make_world: Make) -> None:
    world = make_world(job("start", None, "startup"), job("a"), job("later", 5000.0))
    await world.one_pass()
    assert sorted(job_id for job_id, _ in world.ran) == ["a", "start"]
    assert [each.runs for each in map(world.job, ("start", "a", "later"))] == [1, 1, 0]
    world = make_world(job("gone"))
    world.away.add("gone")
    await world.one_pass()
    assert world.job("gone").tries == 1


async def test_a_table_that_fails_and_a_job_that_ended_lmtui_three_times_are_told_once(
    make_world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(replace(job(), attempts=3))
    await world.work_until(lambda: bool(world.told))
    assert "given up" in world.told[0]
    assert world.ran == []
    world = make_world(job("a", 5.0))

    def fail(*_: object) -> None:
        raise JobsError("the disk is full")

    monkeypatch.setattr(world.table, "change", fail)
    world.clock.at[100.0] = monkeypatch.undo
    await world.work_until(lambda: bool(world.ran))
    assert world.told == ["the disk is full"]
