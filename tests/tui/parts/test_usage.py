from __future__ import annotations

from datetime import UTC, timedelta

from lmtui.features.usage.screens import chart_rows, day_bars
from lmtui.features.usage.values import SLOT_S, LogUsage, UsageRange, UsageSum, usage_report
from tests.tui.driving import Driver
from tests.tui.fake_mcp import NOW
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases
from tests.tui.scenes_lists import use_usage


def spent(days_ago: int, tokens: int) -> LogUsage:
    slot = int((NOW - timedelta(days=days_ago)).timestamp()) // SLOT_S
    return LogUsage(f"202603{days_ago:02}_000000_abcdef", "/w", f"{days_ago} days ago", ((slot, "m", UsageSum(1, tokens)),))


def host_with_usage() -> FakeHost:
    host = FakeHost()
    use_usage(host)
    return host


async def shown(driver: Driver, argument: str = "") -> None:
    await driver.type(f"/usage {argument}".strip(), "UsageList")


async def both(driver: Driver, *texts: str) -> None:
    await driver.until(lambda: all(each in driver.text() for each in texts))


cases = Cases(host_with_usage)
plain_cases = Cases()


@cases
async def the_arrows_count_more_and_fewer_days_and_tab_shows_the_other_tables(driver: Driver) -> None:
    await shown(driver)
    await driver.until(lambda: "the last 7 days · by model" in driver.text() and "70 requests" in driver.text())
    await driver.press("right", "right", "right")
    await driver.until(lambda: "all days · by model" in driver.text() and "169 requests" in driver.text())
    await driver.press("left", "left", "left", "left")
    await driver.until(lambda: "today · by model" in driver.text() and "15 requests" in driver.text())
    for table, text in (("folder", "src/lexer"), ("session", "Task 1: nested comments"), ("day", "2026-03-02")):
        await driver.press("tab")
        await both(driver, f"by {table}", text)
    assert "\x1b" not in driver.text()


@cases
async def a_range_can_be_named_and_an_unknown_one_is_refused(driver: Driver) -> None:
    await shown(driver, "30d")
    await driver.until(lambda: "the last 30 days · by model" in driver.text())
    await driver.press("escape")
    await driver.type("/usage year")
    await driver.until(lambda: "no range 'year'" in driver.text())


@plain_cases
async def without_usage_the_page_says_what_will_appear(driver: Driver) -> None:
    await shown(driver)
    await driver.until(lambda: "No requests in the last 7 days. Press → to count more days." in driver.text())
    await driver.press("right", "right")
    await driver.until(lambda: "No usage yet. Tokens, requests and time appear here" in driver.text())
    assert "requests  prompt" not in driver.text()


def test_a_bar_is_a_day_until_there_are_too_many() -> None:
    report = usage_report([spent(0, 5), spent(8, 3)], UsageRange.ALL, NOW, UTC)
    bars = day_bars(report, 20)
    assert [each.tokens for each in bars] == [3, 0, 0, 0, 0, 0, 0, 0, 5]
    assert all(each.first == each.last for each in bars)
    short = day_bars(report, 4)
    assert [(each.tokens, (each.last - each.first).days) for each in short] == [(3, 2), (0, 2), (5, 2)]
    assert short[-1].last == NOW.date()
    assert len(day_bars(usage_report([spent(0, 5)], UsageRange.MONTH, NOW, UTC), 40)) == 30
    assert day_bars(usage_report((), UsageRange.WEEK, NOW, UTC), 40) == []


def test_bars_are_as_high_as_their_values_and_the_smallest_is_seen() -> None:
    assert chart_rows([0, 16, 8, 1, 4], 2, 1) == [" █", " ██▁▄"]
    assert chart_rows([1, 1000], 1, 3) == ["▁▁ ██"]
    assert chart_rows([], 1, 3) == [""]
