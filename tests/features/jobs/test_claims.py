from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lmtui.features.jobs import schedules
from lmtui.features.jobs.schedules import AWAY_S, MOST_ATTEMPTS, MOST_TRIES
from lmtui.features.jobs.values import JobRecord, Missed

START = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
JOB = JobRecord(id="a", text="task", title="task", created=START, due=START)
LATE = START + timedelta(days=3, hours=1)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def claimed(*jobs: JobRecord, now: datetime = START, most: int = 1) -> list[JobRecord]:
    return [*schedules.claim_due(jobs, now, lambda _: True, most)]


def dropped(jobs: Sequence[JobRecord], own: tuple[str, ...] = (), could_run: bool = True) -> list[JobRecord]:
    return [*schedules.recovered(jobs, own, lambda _: could_run)]


def test_a_claimed_job_is_nobody_elses_until_who_could_run_it_sees_that_its_run_died() -> None:
    held = claimed(JOB)
    assert claimed(*held, now=LATE) == []
    assert dropped(held, (held[0].claim,)) == dropped(held, could_run=False) == dropped([JOB]) == []
    (free,) = dropped(held)
    assert claimed(free)[0].attempts == 2
    others = [replace(JOB, id=name, due=after(-number)) for number, name in enumerate("bcd")]
    assert [job.id for job in claimed(JOB, *others, most=2)] == ["d", "c"], "the oldest first"


def test_a_job_that_ends_lmtui_three_times_is_given_up_and_a_stop_is_not_a_crash() -> None:
    job = JOB
    for _ in range(MOST_ATTEMPTS):
        job = replace(claimed(job)[0], claim="")
    (given_up,) = claimed(job)
    assert (given_up.is_enabled, given_up.claim) == (False, "")
    assert "3 times" in given_up.last_outcome
    job = schedules.given_back(schedules.begun(claimed(JOB)[0], "session", 7))
    assert (job.claim, job.attempts, job.begun_session, job.due) == ("", 0, "session", START)
    job = schedules.begun(claimed(job)[0], "session", 30)
    assert job.begun_seq == 7, "it continues what began there"
    job = schedules.ended(job, "done", START)
    assert (job.begun_session, job.begun_seq, job.last_session, job.runs, job.due) == ("", 0, "session", 1, None)


def test_missed_runs_are_one_run_or_left_out_by_policy() -> None:
    daily = replace(JOB, schedule="daily 14:02", zone="UTC")
    skips = replace(daily, missed=Missed.SKIP)
    (skipped,) = claimed(skips, now=LATE)
    assert (skipped.claim, skipped.due, skipped.last_outcome) == ("", START + timedelta(days=4), "missed")
    runs = (claimed(daily, now=LATE), claimed(skips, now=after(60)), claimed(replace(JOB, missed=Missed.SKIP), now=LATE))
    assert all(job.claim for (job,) in runs), "the last has no other time"
    assert schedules.ended(runs[0][0], "done", LATE).due == START + timedelta(days=4)


def away(job: JobRecord, at_s: float) -> JobRecord:
    """Run a job at a time and find no server."""
    return schedules.put_off(claimed(job, now=after(at_s))[0], "nothing answers", after(at_s))


def test_a_job_without_a_server_is_tried_again_later_and_later_and_at_last_given_up() -> None:
    job, at_s, waits = JOB, 0.0, list[float]()
    while job.due is not None:
        job = away(job, at_s)
        if job.again is not None:
            waits.append((job.again - START).total_seconds() - at_s)
            assert claimed(job, now=after(at_s + waits[-1] - 1)) == []
            at_s += waits[-1]
    assert waits[: len(AWAY_S)] == [*AWAY_S]
    assert len(waits) == MOST_TRIES - 1
    assert sum(waits) > 11 * 3600
    assert job.last_outcome == f"error: nothing answers (tried {MOST_TRIES} times)"
    assert (job.runs, job.tries, job.again, job.attempts, job.claim) == (1, 0, None, 0, "")


def test_the_beat_of_a_job_that_was_put_off_stays_and_what_waits_goes_on_as_soon_as_another_had_the_server() -> None:
    daily = replace(JOB, schedule="every 1h")
    job = away(away(daily, 0.0), 40.0)
    assert (job.due, job.tries, job.last_outcome) == (START, 2, "waiting for the server: nothing answers")
    done = schedules.ended(claimed(job, now=after(200))[0], "done", after(210))
    assert (done.due, done.tries, done.again) == (START + timedelta(hours=1), 0, None)
    job = away(away(JOB, 0.0), 31.0)
    assert [each.again for each in schedules.server_is_back([job, JOB], after(40))] == [after(40)]


def test_a_time_that_is_not_to_be_made_up_for_is_not_waited_for() -> None:
    job = replace(JOB, schedule="every 1h", missed=Missed.SKIP)
    for at_s in (0.0, 31.0, 92.0):
        job = away(job, at_s)
        assert job.tries
    job = away(job, 213.0)
    assert (job.last_outcome, job.due) == ("error: nothing answers (tried 4 times)", START + timedelta(hours=1))
