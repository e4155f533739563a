from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases
from tests.tui.scenes_lists import use_usage


def host_with_usage() -> FakeHost:
    host = FakeHost()
    use_usage(host)
    return host


cases = Cases(host_with_usage)


@cases.full()
async def the_arrows_count_days_tab_shows_the_other_tables_and_a_range_is_named_or_refused(driver: Driver) -> None:
    await driver.type("/usage", "UsageList")
    await driver.until(lambda: "the last 7 days · by model" in driver.text() and "70 requests" in driver.text())
    await driver.press("right", "right", "right")
    await driver.until(lambda: "all days · by model" in driver.text() and "169 requests" in driver.text())
    await driver.press("left", "left", "left", "left")
    await driver.until(lambda: "today · by model" in driver.text() and "15 requests" in driver.text())
    for table, text in (("folder", "src/lexer"), ("session", "Task 1: nested comments"), ("day", "2026-03-02")):
        await driver.press("tab")
        await driver.until_shown(f"by {table}")
        await driver.until_shown(text)
    assert "\x1b" not in driver.text()
    await driver.press("escape", to="Workbench")
    await driver.type("/usage 30d", "UsageList")
    await driver.until(lambda: "the last 30 days · by model" in driver.text())
    await driver.press("escape")
    await driver.type("/usage year")
    await driver.until(lambda: "no range 'year'" in driver.text())
