"""When a job runs: schedules as text, and the next time after a moment.  Pure; moments are in UTC, wall times in a zone.

A schedule is `once` (as soon as possible), `startup`, `at MOMENT`, `every SPAN`, `daily HH:MM`, `hourly :MM` or `cron
FIELDS`.  A daily time, or a cron line with fixed minutes and hours, happens once where the clocks show it twice, and at the
next time that exists where they skip it (cronsim, which does as Debian's cron).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

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
    match schedule.partition(" ")[::2]:
        case "once", _:
            return now
        case "at", moment:
            return datetime.fromisoformat(moment)
        case _:
            return next_time(schedule, now, zone)


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
