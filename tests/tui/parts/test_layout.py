from __future__ import annotations

from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.fakes import play_work
from tests.tui.one_app import Cases

cases = Cases()


def width(driver: Driver, pane: str) -> int:
    panes = driver.app.workbench.panes
    return panes.containers[pane].outer_size.width if panes.containers[pane].display else 0


async def toggle(driver: Driver, *panes: str) -> None:
    for pane in panes:
        await driver.app.run_action(f"run_command('layout.{pane}')", default_namespace=driver.app.workbench)
    await driver.settle()


@cases
async def a_pane_is_hidden_until_one_goes_to_it_and_a_column_goes_with_its_last_pane(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()
    for pane in ("files", "plan"):
        await toggle(driver, pane)
        assert width(driver, pane) == 0, pane
        await toggle(driver, pane)
    await toggle(driver, "files")
    await driver.press("f6")
    assert width(driver, "files") == 28
    before = width(driver, "chat")
    await toggle(driver, "plan")
    assert width(driver, "chat") > before


@cases.at(SMALL)
async def a_pane_over_the_chat_goes_when_it_is_left_and_no_resize_brings_it_back(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.press("f6")
    assert width(driver, "files") == 38
    await driver.press("escape")
    assert width(driver, "files") == 0
    await driver.pilot.resize_terminal(*WIDE)
    await driver.press("f6")
    await driver.pilot.resize_terminal(*SMALL)
    await driver.settle()
    assert width(driver, "files") == 0
