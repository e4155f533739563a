"""When a job runs: schedules as text, and the next time after a moment.  Pure; moments are in UTC, wall times in a zone.

A schedule's text is `once` (as soon as possible), `startup`, `at MOMENT`, `every SPAN`, `daily HH:MM`, `hourly :MM` or `cron
FIELDS`.  What is meant by the clock's face (a daily time, a cron line with chosen hours) happens once where the clocks show it
twice, and at the next time that exists where they skip it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from lmtui.core.errors import UsageError
from lmtui.core.times import clock_time, day_moments, moment_of, read_moment, span_s

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_PART = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d{1,4}))?\Z")
SHORTS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclass(frozen=True, slots=True)
class Cron:
    """When it is time.  `days` and `weekdays` (0 is Sunday) both count where both are narrowed: either is enough then."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    is_any_day: bool
    is_any_weekday: bool

    @property
    def is_hourly(self) -> bool:
        """Tell whether it holds in every hour: then it counts hours that pass, not those on the clock's face."""
        return len(self.hours) == 24

    def is_on(self, day: date) -> bool:
        """Tell whether a day is one of its days."""
        if day.month not in self.months:
            return False
        is_day, is_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.is_any_day or self.is_any_weekday:
            return is_day and is_weekday
        return is_day or is_weekday


def read_cron(text: str) -> Cron:
    """Read five fields, or one of the names in `SHORTS`.

    Raises:
        UsageError: a field cannot be; the text says which and why.
    """
    written = SHORTS.get(text.strip().lower(), text.strip())
    parts = written.split()
    if len(parts) != len(_FIELDS):
        names = ", ".join(name for name, *_ in _FIELDS)
        raise UsageError(f"a cron line has five fields ({names}), {text[:60]!r} has {len(parts)}", 'Such as "0 9 * * mon-fri".')
    minutes, hours, days, months, weekdays = (
        _field(part, name, least, most, names) for part, (name, least, most, names) in zip(parts, _FIELDS, strict=True)
    )
    return Cron(
        " ".join(parts),
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        parts[2].startswith("*"),
        parts[4].startswith("*"),
    )


def _field(text: str, name: str, least: int, most: int, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        match = _PART.match(part)
        if match is None:
            raise _bad(name, part, "it is none of *, 5, 1-5, */10 or a list of them")
        star, first, last, step_text = match.groups()
        step = int(step_text) if step_text else 1
        if not 1 <= step <= most:
            raise _bad(name, part, f"a step is 1 to {most}")
        if star:
            low, high = least, 6 if most == 7 else most
        else:
            low = _number(first, name, least, most, names)
            high = _number(last, name, least, most, names) if last else most if step_text else low
        if low > high:
            raise _bad(name, part, "the range runs backwards")
        found.update(range(low, high + 1, step))
    return found


def _number(text: str, name: str, least: int, most: int, names: tuple[str, ...]) -> int:
    if text in names:
        return names.index(text) + least if names is _MONTHS else names.index(text)
    if not (text.isascii() and text.isdigit() and len(text) <= 4) or not least <= int(text) <= most:
        also = f" or {names[0]} … {names[-1]}" if names else ""
        raise _bad(name, text, f"it is {least} to {most}{also}")
    return int(text)


def _bad(name: str, part: str, why: str) -> UsageError:
    return UsageError(f"{part[:40]!r} cannot be the {name} of a cron line: {why}", 'A whole line is such as "0 9 * * mon-fri".')


FORMS = "at 2026-05-01T09:00 · in 30m · every 30m (90s, 2h, 1d) · daily 09:00 · hourly :05 · cron 0 9 * * mon-fri · startup"
_MOST_EVERY_S = 366 * 86_400
_MOST_DAYS = 366 * 9  # the 29th of February of the next leap year may be that far
_MINUTE = timedelta(minutes=1)


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
            return _coming(read_cron(rest), now, zone)
        case word if word.startswith("@"):
            return _coming(read_cron(text), now, zone)
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
            return _next_on_days(lambda _: [clock], after, zone)
        case Hourly(minute):
            return _next_minute(read_cron(f"{minute} * * * *"), after, zone)
        case Cron() as cron if cron.is_hourly:
            return _next_minute(cron, after, zone)
        case Cron() as cron:
            clocks = [time(hour, minute) for hour in cron.hours for minute in cron.minutes]
            return _next_on_days(lambda day: clocks if cron.is_on(day) else [], after, zone)


def _next_beat(seconds: int, after: datetime, last_due: datetime) -> datetime:
    beats = max(0, (after - last_due) // timedelta(seconds=seconds)) + 1
    return last_due + timedelta(seconds=beats * seconds)


def _next_on_days(clocks_of: Callable[[date], Sequence[time]], after: datetime, zone: tzinfo) -> datetime | None:
    day = after.astimezone(zone).date() - timedelta(days=1)  # a day that a zone skips ends where the next begins
    for offset in range(_MOST_DAYS):
        clocks = clocks_of(day + timedelta(days=offset))
        found = next((each for each in day_moments(day + timedelta(days=offset), clocks, zone) if each > after), None)
        if found is not None:
            return found
    return None


def _next_minute(cron: Cron, after: datetime, zone: tzinfo) -> datetime | None:
    """Return the next minute that passes, whatever the clock's face does."""
    moment = after.astimezone(UTC).replace(second=0, microsecond=0) + _MINUTE
    end = moment + timedelta(days=_MOST_DAYS)
    while moment < end:
        wall = moment.astimezone(zone)
        if wall.second:  # offsets of long ago were no whole minutes
            moment += timedelta(seconds=60 - wall.second)
        elif not cron.is_on(wall.date()):
            moment = moment_of(datetime.combine(wall.date() + timedelta(days=1), time()), zone)
        elif wall.minute not in cron.minutes:
            moment += _MINUTE
        else:
            return moment
    return None


def _coming(cron: Cron, now: datetime, zone: tzinfo) -> Cron:
    if next_time(cron, now, zone) is None:
        raise UsageError(f"no day comes that {cron.text!r} names", "Look at its day and month.")
    return cron


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
