"""Points in time as people write them, and the wall clocks of zones.  Nothing naive leaves this module.

A wall time that a zone skips (clocks go forward) means the first moment after the gap, one that it has twice the first of both.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from lmtui.core.errors import UsageError

FORMS = "2026-05-01T09:00, with Z or +02:00 for another zone than your own; 09:00; in 30m"
_IN = re.compile(r"(?:in\s+|\+\s*)(\d{1,9})\s*([a-z]*)\Z", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\Z")
_NAMES_S = ((1, "s sec second"), (60, "m min minute"), (3600, "h hour"), (86_400, "d day"))
_UNITS_S = {name: seconds for seconds, names in _NAMES_S for name in names.split()}
_SPAN = re.compile(r"(\d{1,9})\s*([a-z]+)\Z", re.IGNORECASE)
FIRST_YEAR, LAST_YEAR = 1970, 9000


def json_value(value: object) -> str:
    """Return what JSON has no form for, for `json.dumps(default=…)`: a moment as events have it, the rest as text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


def time_text(seconds: float) -> str:
    """Return a length of time in its two largest units: `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    whole = int(seconds)
    for size, unit, lesser, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // lesser
            return f"{whole // size} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{whole} s" if whole or not seconds else f"{seconds:.1f} s"


class LocalZone(tzinfo):
    """The zone of this machine, as its C library knows it."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        """Return how far a wall time is ahead of UTC."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().utcoffset()

    def dst(self, _: datetime | None) -> timedelta | None:
        """Return that it is not known how much of the offset is daylight saving."""
        return None

    def tzname(self, dt: datetime | None) -> str | None:
        """Return the zone's short name."""
        return None if dt is None else dt.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, dt: datetime) -> datetime:
        """Return the wall time of a moment that is given in UTC."""
        there = dt.replace(tzinfo=UTC).astimezone()
        wall = there.replace(tzinfo=None, fold=0)
        is_second = wall.astimezone().utcoffset() != there.utcoffset()
        return wall.replace(tzinfo=self, fold=int(is_second))


def zone_of(name: str) -> tzinfo:
    """Return a zone by its IANA name; an empty name is this machine's own.

    Raises:
        UsageError: no such zone.
    """
    if not name:
        return LocalZone()
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        text = f"no time zone {name[:60]!r} on this machine"
        raise UsageError(text, "Names are such as Europe/Berlin or UTC.") from error


def moment_of(wall: datetime, zone: tzinfo) -> datetime:
    """Return the moment (UTC) at which a zone's clocks show a naive wall time, or first show a later one."""
    early, late = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if early.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return early
    low, high = min(early, late).replace(microsecond=0), max(early, late)  # the gap ends between them
    if _wall(low, zone) >= wall:
        return low
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        low, high = (low, middle) if _wall(middle, zone) >= wall else (middle, high)
    return high


def _wall(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def as_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; one without a zone is taken for UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def read_moment(text: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the moment (UTC) that a text names, seen from `now`; a time without a zone is a wall time of `zone`.

    Raises:
        UsageError: it names none; the text shows the forms.
    """
    text = text.strip()
    if _CLOCK.match(text) is not None:
        return _next_clock(clock_time(text), now, zone)
    found = _IN.match(text)
    try:
        if found is not None:
            return now.astimezone(UTC) + timedelta(seconds=span_s(f"{found[1]}{found[2] or 'm'}"))
        read = datetime.fromisoformat(text.replace(" ", "T", 1) if "T" not in text else text)
        if not FIRST_YEAR <= read.year <= LAST_YEAR:
            raise ValueError(f"{read.year} is not a year that a clock here shows")
        return read.astimezone(UTC) if read.tzinfo is not None else moment_of(read, zone)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text[:60]!r} is not a time", f"Write {FORMS}.") from error


def _next_clock(clock: time, now: datetime, zone: tzinfo) -> datetime:
    today = now.astimezone(zone).date()
    found = moment_of(datetime.combine(today, clock), zone)
    return found if found > now else moment_of(datetime.combine(today + timedelta(days=1), clock), zone)


def clock_time(text: str) -> time:
    """Return a time of the day, `HH:MM`.

    Raises:
        UsageError: it is none.
    """
    text = text.strip()
    whole = text if text[1:2] != ":" else f"0{text}"
    try:
        return time.fromisoformat(whole if _CLOCK.match(text) else "")
    except ValueError as error:
        raise UsageError(f"{text[:20]!r} is not a time of the day", "Write HH:MM, such as 09:30.") from error


def span_s(text: str) -> int:
    """Return how many seconds a text such as `90s`, `30m`, `2h` or `1d` says.

    Raises:
        UsageError: it says none.
    """
    found = _SPAN.match(text.strip())
    unit = found[2].lower() if found is not None else ""
    seconds = _UNITS_S.get(unit) or _UNITS_S.get(unit.removesuffix("s"), 0)
    if found is None or not seconds:
        raise UsageError(f"{text[:20]!r} is not a length of time", "Write 90s, 30m, 2h or 1d.")
    return int(found[1]) * seconds


def moment_text(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Return a moment as a person reads it: only the time where it is today, with the day else."""
    there, here = moment.astimezone(zone), now.astimezone(zone)
    if there.date() == here.date():
        return f"{there:%H:%M}"
    return f"{there:%a %H:%M}" if abs(there - here) < timedelta(days=6) else f"{there:%Y-%m-%d %H:%M}"
