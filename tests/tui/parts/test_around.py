from __future__ import annotations

from textual.widgets import Input

from tests.tui.driving import SMALL, Driver
from tests.tui.one_app import Cases

cases = Cases()


async def settings_of(driver: Driver, *keys: str) -> None:
    await driver.press("f11", to="SettingsScreen")
    await driver.press(*keys)


@cases.each("size", [SMALL, (40, 12)])
async def settings_show_value_source_and_help(driver: Driver, size: tuple[int, int]) -> None:
    await settings_of(driver, *"temp")
    text = driver.text()
    assert "Temperature" in text
    assert "Enter change" in text or size == (40, 12)
    assert "0.65" in text
    assert "sampling temperature" in text.replace("\n", " ")


@cases
async def a_setting_that_cannot_be_stays_to_be_corrected_and_one_that_can_is_changed_and_forgotten(driver: Driver) -> None:
    await settings_of(driver, *"temp", "enter")
    await driver.until_screen("AskText")
    await driver.press("ctrl+u", *"hot", "enter")
    await driver.until(lambda: driver.screen_name == "AskText" and "cannot be 'hot'" in driver.text())
    assert "hot" in driver.app.screen.query_one(Input).value
    await driver.press("escape", to="SettingsScreen")
    assert "cannot be 'hot'" in driver.text()
    assert driver.host.settings.changes == []
    await driver.press("enter", to="AskText")
    await driver.press("ctrl+u", *"0.1", "enter", to="SettingsScreen")
    await driver.until(lambda: bool(driver.host.settings.changes))
    await driver.settle()
    assert "temperature = 0.1" in driver.text()
    await driver.press("ctrl+r")
    await driver.until(lambda: len(driver.host.settings.changes) == 2)
    assert driver.host.settings.changes == [("temperature", "0.1"), ("temperature", None)]


@cases.full()
async def a_setting_with_choices_lets_one_choose(driver: Driver) -> None:
    await settings_of(driver, *"when to ask", "enter")
    await driver.until_screen("Picker")
    await driver.press("down", "enter")
    await driver.until(lambda: driver.host.settings.changes == [("mode", "auto")])
