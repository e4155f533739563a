"""Which jobs are run, and what a run leaves behind.  Pure: each function sees all jobs and returns those that change.

A job is run at least once, and once at a time: whoever runs it writes a claim into the table first.  The claim of a process
that died is dropped by the next that could run the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from lmtui.core.errors import UsageError
from lmtui.core.jobs import JobHistory, JobRecord, Missed
from lmtui.core.times import zone_of
from lmtui.features.jobs.schedules import next_time, read_schedule

MOST_ATTEMPTS = 3
LATE = timedelta(minutes=5)
AWAY_S = (30, 60, 120, 300, 600, 1200, 1800)
MOST_TRIES = 30
_MOST_OUTCOME_CHARS = 300


def claim_due(
    records: Sequence[JobRecord],
    now: datetime,
    new_claim: Callable[[], str],
    may_take: Callable[[JobRecord], bool] = lambda _: True,
    most: int = 1,
) -> Iterator[JobRecord]:
    """Yield the due jobs that are claimed, and those that change instead: given up after too many crashes, or missed."""
    claimed = 0
    for record in sorted(records, key=lambda job: job.due or now):
        if not is_due(record, now):
            continue
        history = record.history
        if history.attempts >= MOST_ATTEMPTS:
            outcome = f"given up: lmtui ended {history.attempts} times while it ran"
            yield replace(record, is_enabled=False, history=replace(history, attempts=0, last_outcome=outcome))
        elif _is_missed(record, now):
            yield replace(record, due=due_after(record, now), history=replace(history, last_outcome="missed"))
        elif claimed < most and may_take(record):
            claimed += 1
            yield replace(record, claim=new_claim(), history=replace(history, attempts=history.attempts + 1, last_run=now))


def is_due(record: JobRecord, now: datetime) -> bool:
    """Tell whether a job that nobody runs is to be run."""
    return record.is_enabled and not record.claim and record.next_time is not None and record.next_time <= now


def recovered(records: Sequence[JobRecord], own: Sequence[str], could_run: Callable[[JobRecord], bool]) -> Iterator[JobRecord]:
    """Yield jobs whose run died, claim removed.  Skips jobs in `own`, and those that another process may still run."""
    for record in records:
        if record.claim and record.claim not in own and could_run(record):
            yield replace(record, claim="")


def _is_missed(record: JobRecord, now: datetime) -> bool:
    """Tell whether a run is left out; one that was begun and not ended is not."""
    is_new = record.history.attempts == 0 and record.history.tries == 0 and not record.history.begun_session
    is_late = record.due is not None and now - record.due > LATE
    return record.missed is Missed.SKIP and is_new and is_late and due_after(record, now) is not None


def begun(record: JobRecord, session_id: str, seq: int) -> JobRecord:
    """Return a job with its session and the session's last event; a job that continues keeps the first."""
    past = record.history
    first = past.begun_seq if past.begun_session == session_id else seq
    return replace(record, history=replace(past, last_session=session_id, begun_session=session_id, begun_seq=first))


def ended(record: JobRecord, outcome: str, now: datetime) -> JobRecord:
    """Return a job as a run leaves it that came to an end, however it did."""
    due, past = due_after(record, now), record.history
    if record.due is not None and past.last_run is not None and record.due > past.last_run:
        due = record.due  # it was made due again while it ran
    history = JobHistory(
        runs=past.runs + 1,
        last_run=past.last_run,
        last_outcome=outcome[:_MOST_OUTCOME_CHARS],
        last_session=past.last_session,
    )
    return replace(record, claim="", history=history, due=due)


def given_back(record: JobRecord) -> JobRecord:
    """Return a job as one that is due still: stopped manually, which is not a crash, or its session is busy elsewhere.

    What was begun stays begun, so that the next run continues in its session.
    """
    return replace(record, claim="", history=replace(record.history, attempts=max(0, record.history.attempts - 1)))


def put_off(record: JobRecord, why: str, now: datetime) -> JobRecord:
    """Return a job as one that is tried again a while later, as its model server was away.

    What was begun stays begun.  After too many tries, or for a time that is not to be made up for, the run is at its end.
    """
    tries = record.history.tries
    again = now + timedelta(seconds=AWAY_S[min(tries, len(AWAY_S) - 1)])
    is_late = record.missed is Missed.SKIP and record.due is not None and again - record.due > LATE
    if tries + 1 >= MOST_TRIES or (is_late and due_after(record, now) is not None):
        return ended(record, f"error: {why}" + (f" (tried {tries + 1} times)" if tries else ""), now)
    record = given_back(record)
    outcome = f"waiting for the server: {why}"[:_MOST_OUTCOME_CHARS]
    return replace(record, history=replace(record.history, tries=tries + 1, again=again, last_outcome=outcome))


def server_is_back(records: Sequence[JobRecord], now: datetime) -> Iterator[JobRecord]:
    """Yield the jobs that wait for a model server as those that need not wait any longer: another job's run had one."""
    for record in records:
        if record.history.again is not None and record.history.again > now and not record.claim:
            yield replace(record, history=replace(record.history, again=now))


def due_after(record: JobRecord, now: datetime) -> datetime | None:
    """Return when a job runs after a run that ends now."""
    try:
        zone = zone_of(record.zone)
        schedule = read_schedule(record.schedule, now, zone)
    except UsageError:  # the zone is not on this machine any more
        return None
    return next_time(schedule, now, zone, record.due)


def started_up(records: Sequence[JobRecord], now: datetime) -> Iterator[JobRecord]:
    """Yield the jobs that run when a process begins to serve the workspace."""
    for record in records:
        if record.schedule == "startup" and record.is_enabled and not record.claim and record.due is None:
            yield replace(record, due=now)


def next_due(records: Sequence[JobRecord]) -> datetime | None:
    """Return the earliest time at which something is due, as far as nobody runs it."""
    return min((each.next_time for each in records if each.next_time and each.is_enabled and not each.claim), default=None)
