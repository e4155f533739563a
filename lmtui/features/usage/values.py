"""What models cost, as values: tokens, requests and time by day, model, folder and session.  Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Any, Protocol

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import time_text

NO_USAGE = "No usage yet. Tokens, requests and time appear here after the first answer of a model."
TABLES = ("day", "model", "folder", "session")
_SLOT_S = 900  # a quarter of an hour: in every zone the days begin between two of them


class UsageRange(StrEnum):
    """Which days count, in the user's own time zone: today, the last 7 or 30 with today, or all."""

    TODAY = "today"
    WEEK = "7d"
    MONTH = "30d"
    ALL = "all"


_DAYS = {UsageRange.TODAY: 1, UsageRange.WEEK: 7, UsageRange.MONTH: 30}


def usage_range(text: str) -> UsageRange:
    """Return the range that a text names.

    Raises:
        UsageError: the range is unknown.
    """
    try:
        return UsageRange(text.strip().lower())
    except ValueError as error:
        raise UsageError(f"no range {text[:20]!r}", f"Use one of {', '.join(UsageRange)}.") from error


@dataclass(frozen=True, slots=True)
class UsageSum:
    """What some requests cost together.

    `cached_tokens` are those of the prompts that the server did not read again.  `model_s` is the time of requests, `turn_s`
    that of turns from the user's message to the end, with tools and questions.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    turns: int = 0
    model_s: float = 0.0
    turn_s: float = 0.0

    def __add__(self, other: UsageSum) -> UsageSum:
        return UsageSum(*(round(getattr(self, name) + getattr(other, name), 3) for name in _PARTS))

    @property
    def tokens(self) -> int:
        """Return prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def cached_share(self) -> float:
        """Return the share of the prompts that came from the cache."""
        return min(1.0, self.cached_tokens / self.prompt_tokens) if self.prompt_tokens else 0.0


_PARTS = tuple(part.name for part in fields(UsageSum))


@dataclass(frozen=True, slots=True)
class LogUsage:
    """What the log of one session says: sums by `slot_name`."""

    session: str
    folder: str
    title: str = ""
    slots: Mapping[str, UsageSum] = field(default_factory=dict)


def slot_name(moment: datetime, model: str) -> str:
    """Return the name of what a model costs in a quarter of an hour: its number since 1970 (UTC), and the model."""
    return f"{int(moment.timestamp() // _SLOT_S)} {model}"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The sum of one day (an ISO date), model, folder or session; `title` and `folder` are those of a session."""

    name: str
    sum: UsageSum
    title: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What a range of days cost.  `first` is None where all count.

    `tables` are by day, model, folder and session, as in `TABLES`.  Days are in order, those without requests left out; models
    and folders begin with most tokens, sessions with the newest.  `problems` are logs that could not be read.
    """

    range: UsageRange
    first: date | None
    last: date
    total: UsageSum = field(default_factory=UsageSum)
    tables: Mapping[str, tuple[UsageRow, ...]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def usage_report(
    logs: Iterable[LogUsage], chosen: UsageRange, now: datetime, zone: tzinfo, problems: Sequence[str] = ()
) -> UsageReport:
    """Return what the days of a range cost.

    Args:
        logs: each session once.
        chosen: the range, whose last day is that of `now`; what a wrong clock put behind it counts only in `all`.
        now: a moment with a zone.
        zone: in which days begin.
        problems: what could not be read, in words.
    """
    today = now.astimezone(zone).date()
    first = today - timedelta(days=_DAYS[chosen] - 1) if chosen in _DAYS else None
    days: dict[str, UsageSum] = {}
    models: dict[str, UsageSum] = {}
    folders: dict[str, UsageSum] = {}
    sessions: list[UsageRow] = []
    dates: dict[str, date] = {}
    for log in logs:
        total = UsageSum()
        for name, spent in log.slots.items():
            slot, _, model = name.partition(" ")
            if (day := dates.get(slot)) is None:
                day = dates[slot] = datetime.fromtimestamp(int(slot) * _SLOT_S, UTC).astimezone(zone).date()
            if first is None or first <= day <= today:
                total += spent
                _add(days, day.isoformat(), spent)
                _add(models, model, spent)
        if total.requests or total.turns:
            _add(folders, log.folder, total)
            sessions.append(UsageRow(log.session, total, log.title, log.folder))
    rows = [sorted((UsageRow(*each) for each in sums.items()), key=lambda row: row.name) for sums in (days, models, folders)]
    rows = [rows[0], *(sorted(found, key=lambda row: -row.sum.tokens) for found in rows[1:])]
    rows.append(sorted(sessions, key=lambda row: row.name, reverse=True))
    tables = dict(zip(TABLES, map(tuple, rows), strict=True))
    return UsageReport(chosen, first, today, sum((row.sum for row in sessions), UsageSum()), tables, tuple(problems))


def _add(sums: dict[str, UsageSum], name: str, spent: UsageSum) -> None:
    sums[name] = sums.get(name, UsageSum()) + spent


def usage_json(report: UsageReport) -> dict[str, Any]:  # Any: JSON
    """Return a report as JSON; `docs/usage.md` has the names of the fields."""

    def as_object(table: str, row: UsageRow) -> dict[str, Any]:
        more = {"title": row.title, "folder": row.folder} if table == "session" else {}
        return {table: row.name, **more, **asdict(row.sum)}

    return {
        "range": str(report.range),
        "first": report.first.isoformat() if report.first else None,
        "last": report.last.isoformat(),
        "total": asdict(report.total),
        **{f"{table}s": [as_object(table, row) for row in rows] for table, rows in report.tables.items()},
        "problems": [*report.problems],
    }


class UsageReports(Protocol):
    """What the user's sessions cost, in all folders, as front ends see it."""

    async def report(self, chosen: UsageRange = UsageRange.WEEK) -> UsageReport:
        """Return what the days of a range cost until now."""


def amount_text(count: int) -> str:
    """Return a number of tokens in at most five characters or so: `950`, `3.1k`, `32k`, `1.2M`, `3B`."""
    for size, unit in ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            text = f"{count / size:.1f}" if count < 10 * size else f"{count // size}"
            return f"{text.removesuffix('.0')}{unit}"
    return str(count)


def total_text(total: UsageSum) -> str:
    """Return a sum in words."""
    cached = f" ({total.cached_share:.0%} cached)" if total.cached_tokens else ""
    return (
        f"{amount_text(total.tokens)} tokens: {amount_text(total.prompt_tokens)} prompt{cached}, "
        f"{amount_text(total.completion_tokens)} completion · {pluralize(total.requests, 'request')} · "
        f"{time_text(total.model_s)} of model time"
    )


RANGE_NAMES = {
    UsageRange.TODAY: "today",
    UsageRange.WEEK: "the last 7 days",
    UsageRange.MONTH: "the last 30 days",
    UsageRange.ALL: "all days",
}
_COLUMNS = ("requests", "prompt", "cached", "completion", "model time")
_BAR_CELLS = 20
_MAX_NAME_CHARS = 60


def usage_lines(report: UsageReport, by: str = "", most: int = 10) -> Iterator[str]:
    """Yield a report in lines for people: one table (`by` day, model, folder or session) whole, else the first rows of all."""
    if not report.tables["session"]:
        yield f"{empty_text(report)}{'' if report.range is UsageRange.ALL else ' `--range all` counts all.'}"
    else:
        yield f"{RANGE_NAMES[report.range].capitalize()}: {total_text(report.total)}"
    for table in (by,) if by else TABLES:
        rows = report.tables[table]
        if not rows:
            continue
        shown = rows if by else rows[-most:] if table == "day" else rows[:most]
        yield ""
        yield from _table(table, shown)
        if len(shown) < len(rows):
            yield f"and {len(rows) - len(shown):,} more: `--by {table}`"
    yield from (sanitize_line(each) for each in report.problems)


def row_name(table: str, row: UsageRow) -> str:
    """Return what a row is called on the screen: a day with its weekday, a session by its title."""
    if table == "day":
        return f"{date.fromisoformat(row.name):%a} {row.name}"
    return sanitize_line(row.title or row.name)


def row_cells(spent: UsageSum) -> tuple[str, ...]:
    """Return the numbers of a row: requests, prompt, cached, completion, time."""
    cached = f"{spent.cached_share:.0%}" if spent.cached_tokens else "–"
    amounts = (amount_text(spent.prompt_tokens), cached, amount_text(spent.completion_tokens))
    return f"{spent.requests:,}", *amounts, time_text(spent.model_s)


def empty_text(report: UsageReport) -> str:
    """Return that there is nothing in a range, or what will be there once there is anything at all."""
    name = RANGE_NAMES[report.range]
    return NO_USAGE if report.range is UsageRange.ALL else f"No requests {'' if name == 'today' else 'in '}{name}."


def _table(table: str, rows: Sequence[UsageRow]) -> Iterator[str]:
    names = [row_name(table, row) for row in rows]
    if table != "folder":
        names = [name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 1]}…" for name in names]
    cells = [_COLUMNS, *(row_cells(row.sum) for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(_COLUMNS))]
    width = max(map(len, (table, *names)))
    most = max(row.sum.tokens for row in rows)
    for name, numbers, row in zip((table, *names), cells, (None, *rows), strict=True):
        bar = "█" * round(_BAR_CELLS * row.sum.tokens / most) if table == "day" and row is not None and most else ""
        end = f"  {row.name}" if table == "session" and row is not None else f"  {bar}" if bar else ""
        yield f"{name:<{width}}  " + "  ".join(map(str.rjust, numbers, widths)) + end
