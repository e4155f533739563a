from __future__ import annotations

from tests.tui.driving import WIDE, Driver
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases, Size

cases = Cases()


async def waits(driver: Driver, text: str) -> None:
    play_work(driver.host.session)
    driver.host.session.ask("a1", text)
    await driver.until_screen("Approval")


def ground(driver: Driver, word: str) -> object:
    region = driver.app.workbench.query_one("#hints").region
    strip = driver.strips()[region.y]
    return next(segment.style.bgcolor for segment in strip if word in segment.text and segment.style)


@cases.each("size", [WIDE, (60, 18)])
async def the_key_row_stays_below_a_question(driver: Driver, size: Size) -> None:
    await waits(driver, "make all")
    last = driver.text().splitlines()[-1]
    assert "▲ 1 approval" in last
    assert "Tab message instead" in last
    amber = ground(driver, "1 approval")
    driver.host.session.end_turn()
    await driver.until_screen("Workbench")
    await waits(driver, "rm -rf / --no-preserve-root")
    assert ground(driver, "1 approval") != amber
