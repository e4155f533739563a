"""What stands around the panes: settings, what fills the window, a layout of one's own."""

from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fakes import play_work


async def at_work(driver: Driver) -> None:
    """Half-way through a turn."""
    play_work(driver.host.session)
    await driver.settle()


async def settings(driver: Driver) -> None:
    """Every setting with its source."""
    await at_work(driver)
    await driver.press("f11")
    await driver.until_screen("SettingsScreen")
    await driver.press("down", "down")


async def zoomed(driver: Driver) -> None:
    """The conversation alone."""
    await at_work(driver)
    await driver.press("f9", "alt+z")


async def without_sides(driver: Driver) -> None:
    """Files and plan hidden, the log wide."""
    await at_work(driver)
    for pane in ("files", "plan"):
        await driver.app.run_action(f"run_command('layout.{pane}')", default_namespace=driver.app.workbench)
    await driver.press("f8", "alt+full_stop", "alt+full_stop")
