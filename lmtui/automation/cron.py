"""Cron's five fields (crontab(5)): minute, hour, day of the month, month, day of the week; lists, ranges, steps and names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from lmtui.core.errors import UsageError

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
