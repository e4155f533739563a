from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from lmtui.core.jobs import JobHistory, JobKind, JobRecord, Missed
from lmtui.features.jobs import leases
from lmtui.features.jobs.leases import AWAY_S, LEASE_S, MOST_ATTEMPTS, MOST_TRIES, Owner, RunMoment
from tests.sets import depth

START = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
JOB = JobRecord(id="a", text="task", title="task", created=START, due=START)


def moment(seconds: float = 0.0, *, wall_s: float | None = None) -> RunMoment:
    return RunMoment(START + timedelta(seconds=seconds if wall_s is None else wall_s), seconds)


def claimed(job: JobRecord, at: RunMoment, me: Owner, alive: bool = True) -> list[JobRecord]:
    tokens = itertools.count()
    return [*leases.claim_due([job], at, me, new_token=lambda: f"{me.pid}.{next(tokens)}", is_alive=lambda *_: alive)]


ONE, OTHER = Owner("here", 1, 1.0), Owner("here", 2, 2.0)
FAR = Owner("elsewhere", 1, 1.0)


def test_a_claimed_job_is_nobody_elses_until_its_lease_ends_or_its_owner_here_is_gone() -> None:
    held = claimed(JOB, moment(), ONE)[0]
    assert claimed(held, moment(LEASE_S - 1), OTHER) == []
    assert claimed(held, moment(1, wall_s=7200), OTHER) == [], "setting the clock ends no lease here"
    assert claimed(held, moment(1), FAR, alive=False) == [], "an owner elsewhere is not looked for"
    assert len(claimed(held, moment(1, wall_s=7200), FAR)) == 1
    assert len(claimed(held, moment(1), OTHER, alive=False)) == 1
    taken = claimed(held, moment(LEASE_S), OTHER)
    assert len(taken) == 1
    assert [*leases.ended(taken, "1.0", "done", START)] == [*leases.renewed(taken, ["1.0"], ONE, moment())] == []


def test_a_job_that_ends_its_owner_three_times_is_given_up_and_a_stop_by_hand_is_no_crash() -> None:
    job = JOB
    for _ in range(MOST_ATTEMPTS):
        job = claimed(job, moment(), ONE, alive=False)[0]
        assert job.lease is not None
    given_up = claimed(job, moment(), ONE, alive=False)[0]
    assert (given_up.is_enabled, given_up.lease) == (False, None)
    assert "3 times" in given_up.history.last_outcome
    job = claimed(JOB, moment(), ONE)[0]
    job = next(leases.begun([job], "1.0", "session", 7))
    job = next(leases.given_back([job], "1.0"))
    assert (job.lease, job.history.attempts, job.history.begun_session, job.due) == (None, 0, "session", START)
    job = next(leases.begun([claimed(job, moment(), OTHER)[0]], "2.0", "session", 30))
    assert job.history.begun_seq == 7  # it goes on with what began there
    job = next(leases.ended([job], "2.0", "done", START))
    assert (job.history.begun_session, job.history.begun_seq, job.history.last_session, job.history.runs, job.due) == (
        "", 0, "session", 1, None,
    )  # fmt: skip


def test_missed_runs_are_one_run_or_left_out_by_policy() -> None:
    daily = replace(JOB, schedule="daily 14:02", zone="UTC")
    late = moment(86_400 * 3 + 3600)
    ran = claimed(daily, late, ONE)[0]
    assert ran.lease is not None
    skipped = claimed(replace(daily, missed=Missed.SKIP), late, ONE)[0]
    assert (skipped.lease, skipped.due, skipped.history.last_outcome) == (None, START + timedelta(days=4), "missed")
    assert claimed(replace(daily, missed=Missed.SKIP), moment(60), ONE)[0].lease is not None
    assert claimed(replace(JOB, missed=Missed.SKIP), late, ONE)[0].lease is not None  # it has no other time
    daily = replace(JOB, schedule="daily 14:02", zone="UTC")
    late = moment(86_400 * 3 + 3600)
    job = next(leases.ended(claimed(daily, late, ONE), "1.0", "done", late.wall))
    assert job.due == START + timedelta(days=4)


def test_a_clock_that_was_wrong_puts_nothing_off_and_runs_nothing_twice() -> None:
    ahead = START + timedelta(days=365)
    job = replace(JOB, schedule="daily 09:00", zone="UTC", due=ahead + timedelta(days=1), history=JobHistory(last_run=ahead))
    healed = next(leases.healed([job], START))
    assert healed.due == datetime(2026, 3, 15, 9, 0, tzinfo=UTC)
    ran = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
    job = replace(JOB, schedule="daily 09:00", zone="UTC", due=ran + timedelta(days=1), history=JobHistory(last_run=ran))
    assert [*leases.healed([job], ran - timedelta(hours=1))] == []
    wake = replace(JOB, kind=JobKind.WAKE, schedule="at 2026-04-01T00:00:00Z", due=START + timedelta(days=18))
    assert [*leases.healed([wake], START)] == []
    job = away(JOB, 0.0)
    assert [each.history.again for each in leases.healed([job], START - timedelta(days=2))] == [START - timedelta(days=2)]
    assert [*leases.healed([job], START)] == []


@dataclass
class World:
    """Schedulers on one table; each runs what it claimed until it ends, crashes or sleeps."""

    jobs: dict[str, JobRecord]
    now_s: float = 0.0
    alive: set[int] = field(default_factory=lambda: {1, 2, 3})
    running: dict[str, tuple[int, str]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    crashes: int = 0
    tokens: itertools.count[int] = field(default_factory=itertools.count)

    def write(self, changed: list[JobRecord]) -> list[JobRecord]:
        self.jobs |= {each.id: each for each in changed}
        return changed

    def claim(self, pid: int, most: int) -> None:
        found = leases.claim_due(
            [*self.jobs.values()], moment(self.now_s), Owner("here", pid, float(pid)),
            new_token=lambda: str(next(self.tokens)), is_alive=lambda pid, _: pid in self.alive, most=most,
        )  # fmt: skip
        for job in self.write([*found]):
            if job.lease is not None:
                assert job.id not in self.running, "two schedulers run one job"
                self.running[job.id] = (pid, job.lease.token)

    def renew(self, pid: int) -> None:
        tokens = [token for owner, token in self.running.values() if owner == pid]
        self.write([*leases.renewed([*self.jobs.values()], tokens, Owner("here", pid, float(pid)), moment(self.now_s))])

    def end(self, job_id: str, outcome: str) -> None:
        _, token = self.running.pop(job_id)
        records = [*self.jobs.values()]
        if outcome == "back":
            self.write([*leases.given_back(records, token)])
        else:
            assert self.write([*leases.ended(records, token, outcome, START)])
            self.done.append(job_id)

    def crash(self, pid: int) -> None:
        self.crashes += 1
        self.alive.discard(pid)
        self.running = {job: held for job, held in self.running.items() if held[0] != pid}


STEPS = st.lists(
    st.tuples(st.sampled_from(["claim", "end", "back", "crash", "start", "time"]), st.integers(1, 3), st.integers(1, 4)),
    max_size=60,
)


@settings(max_examples=depth(60, 300))
@given(STEPS, st.integers(1, 6))
def test_whatever_happens_each_job_runs_at_least_once_and_never_by_two(steps: list[tuple[str, int, int]], count: int) -> None:
    world = World({str(number): replace(JOB, id=str(number)) for number in range(count)})
    pids = {1: 1, 2: 2, 3: 3}
    for action, place, number in steps:
        pid = pids[place]
        mine = [job for job, (owner, _) in world.running.items() if owner == pid]
        match action:
            case "claim" if pid in world.alive:
                world.claim(pid, number)
            case "end" | "back" if mine:
                world.end(mine[number % len(mine)], "done" if action == "end" else "back")
            case "crash":
                world.crash(pid)
            case "start" if pid not in world.alive:
                pids[place] = pid + 10  # another process
                world.alive.add(pid + 10)
            case "time":
                world.now_s += LEASE_S / 2
                for each in world.alive:  # who lives renews in time
                    world.renew(each)
            case _:
                pass
    world.alive.add(9)
    for job_id in [*world.running]:
        world.end(job_id, "done")
    for _ in range(count):
        world.claim(9, 1)
        for job_id in [*world.running]:
            world.end(job_id, "done")
    given_up = [job.id for job in world.jobs.values() if not job.is_enabled]
    assert sorted([*world.done, *given_up]) == sorted(world.jobs)  # who ended it has said so: it runs no second time
    assert not given_up or world.crashes >= MOST_ATTEMPTS


def away(job: JobRecord, at_s: float) -> JobRecord:
    """Run a job at a time and find no server."""
    held = claimed(job, moment(at_s), ONE)[0]
    assert held.lease is not None
    return next(leases.put_off([held], held.lease.token, "nothing answers", moment(at_s).wall))


def test_a_job_without_a_server_is_tried_again_later_and_later_and_at_last_given_up() -> None:
    job, at_s, waits = JOB, 0.0, list[float]()
    while job.due is not None:
        job = away(job, at_s)
        if job.history.again is not None:
            waits.append((job.history.again - START).total_seconds() - at_s)
            assert claimed(job, moment(at_s + waits[-1] - 1), ONE) == []
            at_s += waits[-1]
    assert waits[: len(AWAY_S)] == [*AWAY_S]
    assert len(waits) == MOST_TRIES - 1
    assert sum(waits) > 11 * 3600
    assert job.history.last_outcome == f"error: nothing answers (tried {MOST_TRIES} times)"
    assert (job.history.runs, job.history.tries, job.history.again, job.history.attempts, job.lease) == (1, 0, None, 0, None)


def test_the_beat_of_a_job_that_was_put_off_stays_and_what_waits_goes_on_as_soon_as_another_had_the_server() -> None:
    daily = replace(JOB, schedule="every 1h")
    job = away(away(daily, 0.0), 40.0)
    assert (job.due, job.history.tries, job.history.last_outcome) == (START, 2, "waiting for the server: nothing answers")
    held = claimed(job, moment(200.0), ONE)[0]
    assert held.lease is not None
    done = next(leases.ended([held], held.lease.token, "done", moment(210.0).wall))
    assert (done.due, done.history.tries, done.history.again) == (START + timedelta(hours=1), 0, None)
    job = away(away(JOB, 0.0), 31.0)
    now = moment(40.0).wall
    assert [each.history.again for each in leases.server_is_back([job], now)] == [now]
    assert [*leases.server_is_back([JOB], now)] == []


def test_a_time_that_is_not_to_be_made_up_for_is_not_waited_for() -> None:
    job = replace(JOB, schedule="every 1h", missed=Missed.SKIP)
    for at_s in (0.0, 31.0, 92.0):
        job = away(job, at_s)
        assert job.history.tries
    job = away(job, 213.0)
    assert (job.history.last_outcome, job.due) == ("error: nothing answers (tried 4 times)", START + timedelta(hours=1))
