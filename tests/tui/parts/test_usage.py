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


@cases
async def the_days_are_on_one_scale_and_a_key_counts_others(driver: Driver) -> None:
    await driver.type("/usage", "UsageList")
    await driver.until_shown("70 requests")
    bars = {line.split()[0]: line.count("█") + line.count("▆") for line in driver.text().splitlines() if "█" in line}
    assert (bars["Fri"] > bars["Sat"] > bars["Tue"], "203k" in driver.text()) == (True, True)
    for days, text in (("the last 30 days", "src/lexer"), ("all days", "169 requests"), ("today", "15 requests")):
        await driver.press("space")
        await driver.until_shown(days)
        await driver.until_shown(text)
    assert "\x1b" not in driver.text()
    await driver.press("right", to="ContextList")
    await driver.press("left", to="UsageList")
    await driver.press("escape", to="Workbench")
    await driver.type("/usage 30d", "UsageList")
    await driver.until_shown("the last 30 days")
    await driver.press("escape")
    await driver.type("/usage year")
    await driver.until_shown("no range 'year'")
