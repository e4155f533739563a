"""Who may run a job, and what a run leaves behind.  Pure: each function sees all jobs and returns those that change.

A job is run at least once, and by one scheduler at a time: a claim is a lease that its owner renews.  On one machine a lease
ends when its owner is gone, or by the clock that only goes forward; a clock that is set changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lmtui.core.errors import UsageError
from lmtui.core.jobs import JobHistory, JobKind, JobRecord, Lease, Missed
from lmtui.core.times import zone_of
from lmtui.features.jobs.schedules import next_time, read_schedule

LEASE_S = 60.0
MOST_ATTEMPTS = 3
LATE = timedelta(minutes=5)
AWAY_S = (30, 60, 120, 300, 600, 1200, 1800)
MOST_TRIES = 30
_DAY = timedelta(days=1)
_MOST_OUTCOME_CHARS = 300


@dataclass(frozen=True, slots=True)
class RunMoment:
    """Now, on both clocks: the wall's (UTC) and the one that only goes forward (seconds)."""

    wall: datetime
    mono_s: float


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that runs jobs; see `core.jobs.Lease`."""

    machine: str
    pid: int
    started: float


IsAlive = Callable[[int, float], bool]
"""Tells whether the process of an id, begun at a time, is still there."""


def is_free(record: JobRecord, at: RunMoment, me: Owner, is_alive: IsAlive) -> bool:
    """Tell whether nobody has a claim that holds."""
    lease = record.lease
    if lease is None:
        return True
    if lease.machine != me.machine:
        return at.wall >= lease.until
    return at.mono_s >= lease.until_mono_s or not is_alive(lease.pid, lease.started)


def claim_due(
    records: Sequence[JobRecord],
    at: RunMoment,
    me: Owner,
    *,
    new_token: Callable[[], str],
    is_alive: IsAlive,
    may_take: Callable[[JobRecord], bool] = lambda _: True,
    most: int = 1,
) -> Iterator[JobRecord]:
    """Yield the due jobs that are claimed, and those that change instead: given up after too many crashes, or missed."""
    claimed = 0
    for record in sorted(records, key=lambda each: each.due or at.wall):
        is_due = record.is_enabled and record.next_time is not None and record.next_time <= at.wall
        if not is_due or not is_free(record, at, me, is_alive):
            continue
        history = record.history
        if history.attempts >= MOST_ATTEMPTS:
            outcome = f"given up: lmtui ended {history.attempts} times while it ran"
            yield replace(record, is_enabled=False, lease=None, history=replace(history, attempts=0, last_outcome=outcome))
        elif record.lease is None and _is_missed(record, at.wall):
            yield replace(record, due=due_after(record, at.wall), history=replace(history, last_outcome="missed"))
        elif claimed < most and may_take(record):
            claimed += 1
            lease = _lease(new_token(), me, at)
            yield replace(record, lease=lease, history=replace(history, attempts=history.attempts + 1, last_run=at.wall))


def _is_missed(record: JobRecord, now: datetime) -> bool:
    """Tell whether a run is left out; one that was begun and not ended is not."""
    is_new = record.history.attempts == 0 and record.history.tries == 0 and not record.history.begun_session
    is_late = record.due is not None and now - record.due > LATE
    return record.missed is Missed.SKIP and is_new and is_late and due_after(record, now) is not None


def _lease(token: str, me: Owner, at: RunMoment) -> Lease:
    return Lease(token, me.machine, me.pid, me.started, at.wall + timedelta(seconds=LEASE_S), at.mono_s + LEASE_S)


def _mine(records: Sequence[JobRecord], token: str) -> Iterator[JobRecord]:
    return (record for record in records if record.lease is not None and record.lease.token == token)


def renewed(records: Sequence[JobRecord], tokens: Sequence[str], me: Owner, at: RunMoment) -> Iterator[JobRecord]:
    """Yield the claimed jobs with a lease that begins now; a token that is missing in them has been lost."""
    for token in tokens:
        for record in _mine(records, token):
            yield replace(record, lease=_lease(token, me, at))


def begun(records: Sequence[JobRecord], token: str, session_id: str, seq: int) -> Iterator[JobRecord]:
    """Yield the claimed job with its session and the session's last event; a job that continues keeps the first."""
    for record in _mine(records, token):
        past = record.history
        first = past.begun_seq if past.begun_session == session_id else seq
        yield replace(record, history=replace(past, last_session=session_id, begun_session=session_id, begun_seq=first))


def ended(records: Sequence[JobRecord], token: str, outcome: str, now: datetime) -> Iterator[JobRecord]:
    """Yield the claimed job as a run leaves it that came to an end, however it did."""
    for record in _mine(records, token):
        due, past = due_after(record, now), record.history
        if record.due is not None and past.last_run is not None and record.due > past.last_run:
            due = record.due  # it was made due again while it ran
        yield replace(
            record,
            lease=None,
            history=JobHistory(
                runs=past.runs + 1,
                last_run=past.last_run,
                last_outcome=outcome[:_MOST_OUTCOME_CHARS],
                last_session=past.last_session,
            ),
            due=due,
        )


def given_back(records: Sequence[JobRecord], token: str) -> Iterator[JobRecord]:
    """Yield the claimed job as one that is due still: stopped manually, which is not a crash, or its session is busy elsewhere.

    What was begun stays begun, so that the next run continues in its session.
    """
    for record in _mine(records, token):
        yield replace(record, lease=None, history=replace(record.history, attempts=max(0, record.history.attempts - 1)))


def put_off(records: Sequence[JobRecord], token: str, why: str, now: datetime) -> Iterator[JobRecord]:
    """Yield the claimed job as one that is tried again a while later, as its model server was away.

    What was begun stays begun.  After too many tries, or for a time that is not to be made up for, the run is at its end.
    """
    for record in _mine(records, token):
        tries = record.history.tries
        again = now + timedelta(seconds=AWAY_S[min(tries, len(AWAY_S) - 1)])
        is_late = record.missed is Missed.SKIP and record.due is not None and again - record.due > LATE
        if tries + 1 >= MOST_TRIES or (is_late and due_after(record, now) is not None):
            tried = f" (tried {tries + 1} times)" if tries else ""
            yield from ended([record], token, f"error: {why}{tried}", now)
            continue
        outcome = f"waiting for the server: {why}"[:_MOST_OUTCOME_CHARS]
        attempts = max(0, record.history.attempts - 1)
        history = replace(record.history, attempts=attempts, tries=tries + 1, again=again, last_outcome=outcome)
        yield replace(record, lease=None, history=history)


def server_is_back(records: Sequence[JobRecord], now: datetime) -> Iterator[JobRecord]:
    """Yield the jobs that wait for a model server as those that need not wait any longer: another job's run had one."""
    for record in records:
        if record.history.again is not None and record.history.again > now and record.lease is None:
            yield replace(record, history=replace(record.history, again=now))


def due_after(record: JobRecord, now: datetime) -> datetime | None:
    """Return when a job runs after a run that ends now."""
    try:
        zone = zone_of(record.zone)
        schedule = read_schedule(record.schedule, now, zone)
    except UsageError:  # the zone is not on this machine any more
        return None
    return next_time(schedule, now, zone, record.due)


def healed(records: Sequence[JobRecord], now: datetime) -> Iterator[JobRecord]:
    """Yield the jobs that a wrong clock had put off too far: their next time, counted from now."""
    for record in records:
        if record.due is None or record.lease is not None:
            continue
        if record.history.again is not None and record.history.again - now > timedelta(seconds=AWAY_S[-1]):
            yield replace(record, history=replace(record.history, again=now))
            continue
        if record.kind is JobKind.WAKE:
            continue
        is_ahead = record.history.last_run is not None and record.history.last_run - now > _DAY
        begin = now if record.history.last_run is None or is_ahead else max(now, record.history.last_run)
        try:
            zone = zone_of(record.zone)
            schedule = read_schedule(record.schedule, now, zone)
        except UsageError:
            continue
        latest = next_time(schedule, begin, zone)
        if latest is not None and record.due > latest:
            yield replace(record, due=latest)


def started_up(records: Sequence[JobRecord], now: datetime) -> Iterator[JobRecord]:
    """Yield the jobs that run when the first scheduler of a workspace starts."""
    for record in records:
        if record.schedule == "startup" and record.is_enabled and record.lease is None and record.due is None:
            yield replace(record, due=now)


def next_due(records: Sequence[JobRecord]) -> datetime | None:
    """Return the earliest time at which something is due, as far as nobody runs it."""
    return min((each.next_time for each in records if each.next_time and each.is_enabled and each.lease is None), default=None)
