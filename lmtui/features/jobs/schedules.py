"""When a job runs: schedules as text, and the next time after a moment.  Pure; moments are in UTC, wall times in a zone.

A schedule is `once` (as soon as possible), `startup`, `at MOMENT`, `every SPAN`, `daily HH:MM`, `hourly :MM` or `cron
FIELDS`.  A daily time, or a cron line with fixed minutes and hours, happens once where the clocks show it twice, and at the
next time that exists where they skip it (cronsim, which does as Debian's cron).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

from lmtui.core.errors import UsageError
from lmtui.core.times import clock_time, read_moment, span_s, zone_of
from lmtui.features.jobs.values import JobRecord, Missed

SHORTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FORMS = "at 2026-05-01T09:00 · in 30m · every 30m (90s, 2h, 1d) · daily 09:00 · hourly :05 · cron 0 9 * * mon-fri · startup"
_MOST_EVERY_S = 366 * 86_400
_SIZES = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def read_schedule(text: str, now: datetime, zone: tzinfo) -> str:
    """Return a schedule in the form that is kept, which reads the same at any time; moments are in UTC there.

    Raises:
        UsageError: it is none, or one that never comes; the text shows the forms.
    """
    text = text.strip()
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    match word.lower():
        case "once" | "" if not rest:
            return "once"
        case "startup" if not rest:
            return "startup"
        case "at" | "in" as kind:
            moment = read_moment(rest if kind == "at" else text, now, zone)
            return f"at {moment.astimezone(UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}"
        case "every":
            seconds = _every_s(rest)
            size, unit = next((size, unit) for size, unit in _SIZES if seconds % size == 0)
            return f"every {seconds // size}{unit}"
        case "daily":
            clock = clock_time(rest)
            return f"daily {clock:%H:%M:%S}" if clock.second else f"daily {clock:%H:%M}"
        case "hourly":
            return f"hourly :{_minute(rest):02}"
        case "cron":
            return _read_cron(rest, now, zone)
        case name if name.startswith("@"):
            return _read_cron(text, now, zone)
        case _:
            raise UsageError(f"{text[:60]!r} is not a schedule", f"There are: {FORMS}.")


def first_time(schedule: str, now: datetime, zone: tzinfo) -> datetime | None:
    """Return when a new job runs first; None for one that waits for a start."""
    word, _, moment = schedule.partition(" ")
    if word == "at":
        return datetime.fromisoformat(moment)
    return now if word == "once" else next_time(schedule, now, zone)


def next_time(schedule: str, after: datetime, zone: tzinfo, last_due: datetime | None = None) -> datetime | None:
    """Return the first time strictly after a moment; None where there is none by the clock.

    `last_due` is the time that came before: what runs every so often keeps its beat.
    """
    match schedule.partition(" ")[::2]:
        case "every", span:
            beat, begin = timedelta(seconds=span_s(span)), last_due or after
            return begin + (max(0, (after - begin) // beat) + 1) * beat
        case "daily", text:
            clock = clock_time(text)
            past_minute = timedelta(seconds=clock.second)  # cron has no seconds
            return _next_cron(f"{clock.minute} {clock.hour} * * *", after - past_minute, zone) + past_minute
        case "hourly", minute:
            return _next_cron(f"{minute[1:]} * * * *", after, zone)
        case "cron", line:
            return _next_cron(line, after, zone)
        case _:
            return None


def _next_cron(line: str, after: datetime, zone: tzinfo) -> datetime:
    return next(CronSim(line, after.astimezone(zone))).astimezone(UTC)


def _read_cron(text: str, now: datetime, zone: tzinfo) -> str:
    """Read five fields, or one of the names in `SHORTS`; in hours that the clocks skip or show twice it runs as Debian's cron.

    Raises:
        UsageError: the line cannot be read, or names a day that never comes.
    """
    line = " ".join(SHORTS.get(text.strip().lower(), text).split())
    try:
        if line.count(" ") != 4:
            raise CronSimError("it has five fields: minute, hour, day of the month, month, day of the week")
        _ = _next_cron(line, now, zone)
    except (CronSimError, ValueError) as error:
        hint = 'Write one such as "0 9 * * mon-fri".'
        raise UsageError(f"{text.strip()[:60]!r} is not a cron line: {error}", hint) from error
    except StopIteration as error:
        raise UsageError(f"no day comes that {text.strip()[:60]!r} names", "Look at its day and month.") from error
    return f"cron {line}"


def _every_s(text: str) -> int:
    seconds = span_s(text)
    if not 1 <= seconds <= _MOST_EVERY_S:
        raise UsageError(f"every {text[:20]} is out of bounds", "It is 1s to 366d.")
    return seconds


def _minute(text: str) -> int:
    digits = text.removeprefix(":")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 2 and int(digits) < 60):
        raise UsageError(f"{text[:20]!r} is not a minute of the hour", "Write :00 to :59.")
    return int(digits)


MOST_ATTEMPTS = 3
LATE = timedelta(minutes=5)
AWAY_S = (30, 60, 120, 300, 600, 1200, 1800)
MOST_TRIES = 30
_MOST_OUTCOME_CHARS = 300


def claim_due(
    records: Sequence[JobRecord], now: datetime, may_take: Callable[[JobRecord], bool], most: int
) -> Iterator[JobRecord]:
    """Yield the due jobs that are claimed, and those that change instead: given up after too many crashes, or missed."""
    claimed = 0
    for record in sorted(records, key=lambda job: job.due or now):
        if not is_due(record, now):
            continue
        if record.attempts >= MOST_ATTEMPTS:
            outcome = f"given up: lmtui ended {record.attempts} times while it ran"
            yield replace(record, is_enabled=False, attempts=0, last_outcome=outcome)
        elif _is_missed(record, now):
            yield replace(record, due=due_after(record, now), last_outcome="missed")
        elif claimed < most and may_take(record):
            claimed += 1
            yield replace(record, claim=secrets.token_hex(8), attempts=record.attempts + 1, last_run=now)


def is_due(record: JobRecord, now: datetime) -> bool:
    """Tell whether a job that nobody runs is to be run."""
    return record.is_enabled and not record.claim and record.next_time is not None and record.next_time <= now


def recovered(records: Sequence[JobRecord], own: Sequence[str], may_take: Callable[[JobRecord], bool]) -> Iterator[JobRecord]:
    """Yield jobs whose run died, claim removed.  Skips jobs in `own`, and those that another process may still run."""
    for record in records:
        if record.claim and record.claim not in own and may_take(record):
            yield replace(record, claim="")


def _is_missed(record: JobRecord, now: datetime) -> bool:
    """Tell whether a run is left out; one that was begun and not ended is not."""
    is_new = record.attempts == 0 and record.tries == 0 and not record.begun_session
    is_late = record.due is not None and now - record.due > LATE
    return record.missed is Missed.SKIP and is_new and is_late and due_after(record, now) is not None


def begun(record: JobRecord, session_id: str, seq: int) -> JobRecord:
    """Return a job with its session and the session's last event; a job that continues keeps the first."""
    first = record.begun_seq if record.begun_session == session_id else seq
    return replace(record, last_session=session_id, begun_session=session_id, begun_seq=first)


def ended(record: JobRecord, outcome: str, now: datetime) -> JobRecord:
    """Return a job as a run leaves it that came to an end, however it did."""
    is_due_again = record.due is not None and record.last_run is not None and record.due > record.last_run
    due = record.due if is_due_again else due_after(record, now)  # it was made due again while it ran
    record = replace(fresh(record), claim="", begun_session="", begun_seq=0, due=due)
    return replace(record, runs=record.runs + 1, last_outcome=outcome[:_MOST_OUTCOME_CHARS])


def fresh(record: JobRecord) -> JobRecord:
    """Return a job without the runs that failed."""
    return replace(record, attempts=0, tries=0, again=None)


def given_back(record: JobRecord) -> JobRecord:
    """Return a job as one that is due still: stopped manually, which is not a crash, or its session is busy elsewhere.

    What was begun stays begun, so that the next run continues in its session.
    """
    return replace(record, claim="", attempts=max(0, record.attempts - 1))


def put_off(record: JobRecord, why: str, now: datetime) -> JobRecord:
    """Return a job as one that is tried again a while later, as its model server was away.

    What was begun stays begun.  After too many tries, or for a time that is not to be made up for, the run is at its end.
    """
    tries = record.tries
    again = now + timedelta(seconds=AWAY_S[min(tries, len(AWAY_S) - 1)])
    is_late = record.missed is Missed.SKIP and record.due is not None and again - record.due > LATE
    if tries + 1 >= MOST_TRIES or (is_late and due_after(record, now) is not None):
        return ended(record, f"error: {why}" + (f" (tried {tries + 1} times)" if tries else ""), now)
    outcome = f"waiting for the server: {why}"[:_MOST_OUTCOME_CHARS]
    return replace(given_back(record), tries=tries + 1, again=again, last_outcome=outcome)


def server_is_back(records: Sequence[JobRecord], now: datetime) -> Iterator[JobRecord]:
    """Yield the jobs that wait for a model server as those that need not wait any longer: another job's run had one."""
    for record in records:
        if record.again is not None and record.again > now and not record.claim:
            yield replace(record, again=now)


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
