"""When a job runs: schedules as text, and the next time after a moment.  Pure; moments are in UTC, wall times in a zone.

A schedule's text is `once` (as soon as possible), `startup`, `at MOMENT`, `every SPAN`, `daily HH:MM`, `hourly :MM` or `cron
FIELDS`.  A daily time, or a cron line with fixed minutes and hours, happens once where the clocks show it twice, and at the
next time that exists where they skip it (cronsim, which does as Debian's cron).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from cronsim import CronSim, CronSimError

from lmtui.core.errors import UsageError
from lmtui.core.times import clock_time, read_moment, span_s

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


@dataclass(frozen=True, slots=True)
class Once:
    """As soon as possible."""


@dataclass(frozen=True, slots=True)
class Startup:
    """When a scheduler starts on the workspace."""


@dataclass(frozen=True, slots=True)
class At:
    """At one moment."""

    moment: datetime


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again after a while."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Daily:
    """Each day at a time."""

    clock: time


@dataclass(frozen=True, slots=True)
class Hourly:
    """Each hour at a minute."""

    minute: int


@dataclass(frozen=True, slots=True)
class Cron:
    """Whenever a cron line with five fields says."""

    text: str


Schedule = Once | Startup | At | Every | Daily | Hourly | Cron


def read_schedule(text: str, now: datetime, zone: tzinfo) -> Schedule:
    """Read a schedule's text.

    Raises:
        UsageError: it is none, or one that never comes; the text shows the forms.
    """
    word, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    match word.lower():
        case "once" | "" if not rest:
            return Once()
        case "startup" if not rest:
            return Startup()
        case "at":
            return At(read_moment(rest, now, zone))
        case "in":
            return At(read_moment(text.strip(), now, zone))
        case "every":
            return Every(_every_s(rest))
        case "daily":
            return Daily(clock_time(rest))
        case "hourly":
            return Hourly(_minute(rest))
        case "cron":
            return _read_cron(rest, now, zone)
        case word if word.startswith("@"):
            return _read_cron(text, now, zone)
        case _:
            raise UsageError(f"{text[:60]!r} is not a schedule", f"There are: {FORMS}.")


def schedule_text(schedule: Schedule) -> str:
    """Return a schedule in the form that is kept; moments are in UTC."""
    match schedule:
        case Once():
            return "once"
        case Startup():
            return "startup"
        case At(moment):
            return f"at {moment.astimezone(UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}"
        case Every(seconds):
            size, unit = next((size, unit) for size, unit in _SIZES if seconds % size == 0)
            return f"every {seconds // size}{unit}"
        case Daily(clock):
            return f"daily {clock:%H:%M:%S}" if clock.second else f"daily {clock:%H:%M}"
        case Hourly(minute):
            return f"hourly :{minute:02}"
        case Cron(text):
            return f"cron {text}"


_SIZES = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def first_time(schedule: Schedule, now: datetime, zone: tzinfo) -> datetime | None:
    """Return when a new job runs first; None for one that waits for a start."""
    match schedule:
        case Once():
            return now
        case At(moment):
            return moment
        case Startup():
            return None
        case _:
            return next_time(schedule, now, zone)


def next_time(schedule: Schedule, after: datetime, zone: tzinfo, last_due: datetime | None = None) -> datetime | None:
    """Return the first time strictly after a moment; None where there is none by the clock.

    `last_due` is the time that came before: what runs every so often keeps its beat.
    """
    match schedule:
        case Once() | Startup() | At():
            return None
        case Every(seconds):
            return _next_beat(seconds, after, last_due or after)
        case Daily(clock):
            past_minute = timedelta(seconds=clock.second)  # cron has no seconds
            return _next_cron(f"{clock.minute} {clock.hour} * * *", after - past_minute, zone) + past_minute
        case Hourly(minute):
            return _next_cron(f"{minute} * * * *", after, zone)
        case Cron(text):
            return _next_cron(text, after, zone)


def _next_beat(seconds: int, after: datetime, last_due: datetime) -> datetime:
    beats = max(0, (after - last_due) // timedelta(seconds=seconds)) + 1
    return last_due + timedelta(seconds=beats * seconds)


def _next_cron(line: str, after: datetime, zone: tzinfo) -> datetime:
    return next(CronSim(line, after.astimezone(zone))).astimezone(UTC)


def _read_cron(text: str, now: datetime, zone: tzinfo) -> Cron:
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
        raise UsageError(
            f"{text.strip()[:60]!r} is not a cron line: {error}", 'Write one such as "0 9 * * mon-fri".'
        ) from error
    except StopIteration as error:
        raise UsageError(f"no day comes that {text.strip()[:60]!r} names", "Look at its day and month.") from error
    return Cron(line)


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
