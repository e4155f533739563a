from __future__ import annotations

import itertools
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.times import zone_of
from lmtui.features.jobs.schedules import first_time, next_time, read_schedule
from tests.sets import for_each

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
ODD = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu", "UTC")
ZONES = st.one_of(st.sampled_from(ODD), st.sampled_from(sorted(available_timezones()))).map(zone_of)
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
CLOCKS = st.times().map(lambda clock: clock.replace(second=0, microsecond=0, tzinfo=None, fold=0))


def following(text: str, after: datetime, zone: tzinfo, count: int) -> list[datetime]:
    schedule, found = read_schedule(text, after, zone), list[datetime]()
    while len(found) < count:
        moment = next_time(schedule, found[-1] if found else after, zone, found[-1] if found else None)
        assert moment is not None
        found.append(moment)
    return found


def local(moments: list[datetime], zone: tzinfo) -> list[str]:
    return [f"{each.astimezone(zone):%d. %H:%M %z}" for each in moments]


def test_a_daily_time_or_hour_that_the_clocks_skip_or_show_twice_comes_once() -> None:
    found = following("daily 02:30", datetime(2026, 3, 27, 12, tzinfo=UTC), BERLIN, 3)
    assert local(found, BERLIN) == ["28. 02:30 +0100", "29. 03:00 +0200", "30. 02:30 +0200"]
    found = following("daily 02:30", datetime(2026, 10, 24, 12, tzinfo=UTC), BERLIN, 2)
    assert local(found, BERLIN) == ["25. 02:30 +0200", "26. 02:30 +0100"]
    found = following("cron 0,30 2 * * *", datetime(2026, 3, 28, 12, tzinfo=UTC), BERLIN, 3)
    assert local(found, BERLIN) == ["29. 03:00 +0200", "30. 02:00 +0200", "30. 02:30 +0200"]


def test_what_comes_every_hour_goes_by_the_hours_that_pass() -> None:
    found = following("hourly :30", datetime(2026, 10, 24, 23, 45, tzinfo=UTC), BERLIN, 3)
    assert local(found, BERLIN) == ["25. 02:30 +0200", "25. 02:30 +0100", "25. 03:30 +0100"]
    found = following("cron */30 * * * *", datetime(2026, 3, 29, 0, 15, tzinfo=UTC), BERLIN, 3)
    assert local(found, BERLIN) == ["29. 01:30 +0100", "29. 03:00 +0200", "29. 03:30 +0200"]


@for_each(("line", "expected"), [
    ("0 9 * * mon-fri", ["16. 09:00", "17. 09:00"]), ("*/20 14 * * *", ["14. 14:20", "14. 14:40"]),
    ("0 0 1,15 * *", ["15. 00:00", "01. 00:00"]), ("5 4 * * sun", ["15. 04:05", "22. 04:05"]),
    ("5 4 * * 7", ["15. 04:05", "22. 04:05"]), ("0 12 13 * fri", ["20. 12:00", "27. 12:00"]),
    ("0 0 29 feb *", ["29. 00:00", "29. 00:00"]),
    ("1-10/4 0 * JAN-mar *", ["15. 00:01", "15. 00:05"]),
])  # fmt: skip
def test_cron_lines(line: str, expected: list[str]) -> None:
    found = following(f"cron {line}", NOW, UTC, 2)
    assert [f"{each:%d. %H:%M}" for each in found] == expected


@for_each(
    "text",
    [
        "cron 0 9 * *", "cron 60 9 * * *", "cron 0 9 * * mondays", "cron 5-1 9 * * *", "cron */0 9 * * *",
        "cron 0000099999 0 * * *", f"cron */{'1' * 5000} 0 * * *", "in 999999999d",
        "cron 0 0 31 feb *", "cron a b c d e", "cron 0 9 * * *;", "every", "every 0s", "every 400d", "every soon", "every 1y",
        "daily 25:00", "daily 9", "hourly 60", "hourly :x", "at", "at never", "at 2026-02-30T09:00", "at 0001-01-01T00:00",
        "0 9 * * *", "weekly", "startup now",
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_an_error_that_shows_a_form(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_schedule(text, NOW, UTC)
    assert caught.value.hint


@for_each(("text", "kept"), [
    ("at 2026-05-01T09:00", "at 2026-05-01T07:00:00Z"),
    ("at 2026-05-01 09:00:30Z", "at 2026-05-01T09:00:30Z"),
    ("at 2026-05-01T09:00+05:30", "at 2026-05-01T03:30:00Z"),
    ("at in 30m", "at 2026-03-14T14:32:00Z"), ("in 90 seconds", "at 2026-03-14T14:03:30Z"),
    ("at 09:00", "at 2026-03-15T08:00:00Z"), ("at 16:00", "at 2026-03-14T15:00:00Z"),
    ("every 90s", "every 90s"), ("every 120 minutes", "every 2h"), ("Daily 9:05", "daily 09:05"),
    ("hourly 5", "hourly :05"), ("@daily", "cron 0 0 * * *"), ("startup", "startup"), ("", "once"),
])  # fmt: skip
def test_a_schedule_is_kept_in_a_form_that_reads_the_same(text: str, kept: str) -> None:
    assert read_schedule(text, NOW, BERLIN) == kept
    assert read_schedule(kept, NOW + timedelta(days=400), BERLIN) == kept


def test_a_zone_that_is_not_there_is_an_error() -> None:
    for name in ("Mars/Olympus", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(UsageError):
            zone_of(name)


@given(CLOCKS, MOMENTS, ZONES)
def test_a_daily_job_runs_once_for_each_date_of_its_zone(clock: time, after: datetime, zone: tzinfo) -> None:
    found = following(f"daily {clock:%H:%M}", after, zone, 5)
    assert found == sorted(set(found))
    assert found[0] > after
    dates = [each.astimezone(zone).date() for each in found]
    for one, other in itertools.pairwise(dates):
        assert timedelta() <= other - one <= timedelta(days=2)  # two: a zone left a date out
    is_usual = sum(each.astimezone(zone).time().replace(fold=0) == clock for each in found)
    assert is_usual >= 3


@given(st.integers(1, 366 * 86_400), MOMENTS, st.integers(0, 10**8))
def test_a_beat_is_after_now_and_a_whole_number_of_steps_on(seconds: int, due: datetime, late_s: int) -> None:
    schedule = read_schedule(f"every {seconds}s", due, UTC)
    now = due + timedelta(seconds=late_s)
    found = next_time(schedule, now, UTC, due)
    assert found is not None
    assert timedelta() < found - now <= timedelta(seconds=seconds)
    assert (found - due) % timedelta(seconds=seconds) == timedelta()


@given(st.text(max_size=40))
def test_any_text_is_a_schedule_or_an_error(text: str) -> None:
    try:
        schedule = read_schedule(text, NOW, UTC)
    except UsageError:
        return
    assert read_schedule(schedule, NOW, UTC) == schedule
    assert first_time(schedule, NOW, UTC) is not None or schedule == "startup"
