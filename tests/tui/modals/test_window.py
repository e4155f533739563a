from __future__ import annotations

from lmtui.core.events import UsageUpdated
from lmtui.core.messages import Usage
from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.one_app import Cases
from tests.tui.scenes_window import play_usages

cases = Cases()

SIZES = [WIDE, (20, 6)]


@cases.each("size", SIZES)
async def what_fills_the_window_is_shown_by_part(driver: Driver, size: tuple[int, int]) -> None:
    driver.host.session.emit(UsageUpdated(usage=Usage(3320, 120, 3187), window_tokens=8192))
    await driver.type("/context", "ContextList")
    if size[1] >= SMALL[1]:
        assert "about 3.3k tokens of 8k; 3.3k in the last request" in driver.text()
        assert "results of read" in driver.text()
        assert "src/parser.py" in driver.text()


@cases
async def the_cost_of_a_change_is_said_before_it_is_made(driver: Driver) -> None:
    await driver.type("/context", "ContextList")
    await driver.press("down", "down", "down", "down", "down", "down")
    await driver.until(lambda: "Changing this re-reads 740 tokens (1.9 s)" in driver.text())
    await driver.press("x", "space", "d", "r", "space")
    assert driver.host.session.window_use.done == ["fold c1", "pin c1", "leave out c1", "bring back c1", "unpin c1"]


@cases.full()
async def what_cannot_be_changed_says_so_and_stays(driver: Driver) -> None:
    await driver.type("/context", "ContextList")
    await driver.press("x", "d", "r", "space", "enter", "down", "x", "d", "r", "space")
    await driver.until(lambda: "Only results" in driver.text())
    assert driver.host.session.window_use.done == []


@cases.each("size", SIZES)
async def where_the_time_of_each_step_went_is_shown_by_turn(driver: Driver, size: tuple[int, int]) -> None:
    play_usages(driver)
    await driver.type("/cache", "TraceList")
    if size[1] >= SMALL[1]:
        assert "5 requests · 74% from cache · 6k read, 2k re-read" in driver.text()
        await driver.press("end")
        await driver.until_shown("0 of 3,460 tokens re-read, 2,150 from cache")
        await driver.press("home", "down")
        await driver.until_shown("1,990 of 2,300 tokens re-read: server restarted, 0 from cache, inferred")
