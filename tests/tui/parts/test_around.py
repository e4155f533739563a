from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Input

from lmtui.tui.perf_overlay import PerfOverlay, meter_text
from tests.tui.driving import SMALL, WIDE, Driver, running

SIZES = [WIDE, SMALL, (40, 12)]


async def settings_of(driver: Driver, *keys: str) -> None:
    await driver.press("f11")
    await driver.until_screen("SettingsScreen")
    await driver.press(*keys)


@pytest.mark.parametrize("size", SIZES)
async def test_settings_show_value_source_and_help(size: tuple[int, int]) -> None:
    async with running(size=size) as driver:
        await settings_of(driver, *"temp")
        text = driver.text()
        assert "Temperature" in text
        assert "Enter change" in text or size == (40, 12)
        assert "0.65" in text
        assert "sampling temperature" in text.replace("\n", " ")


async def test_a_setting_is_changed_and_forgotten() -> None:
    async with running() as driver:
        await settings_of(driver, *"temp", "enter")
        await driver.until_screen("AskText")
        await driver.press("end", "backspace", "backspace", "1", "enter")
        await driver.until_screen("SettingsScreen")
        await driver.until(lambda: bool(driver.host.settings.changes))
        await driver.settle()
        assert "temperature = 0.1" in driver.text()
        await driver.press("delete")
        await driver.until(lambda: len(driver.host.settings.changes) == 2)
        assert driver.host.settings.changes == [("temperature", "0.1"), ("temperature", None)]


async def test_what_cannot_be_is_said_and_the_screen_stays() -> None:
    async with running() as driver:
        await settings_of(driver, *"temp", "enter")
        await driver.until_screen("AskText")
        await driver.press("ctrl+u", *"hot", "enter")
        await driver.until(lambda: driver.screen_name == "AskText" and "cannot be 'hot'" in driver.text())
        assert "hot" in driver.app.screen.query_one(Input).value  # to be corrected
        await driver.press("escape")
        await driver.until_screen("SettingsScreen")
        assert "cannot be 'hot'" in driver.text()
        assert driver.host.settings.changes == []


async def test_a_setting_with_choices_lets_one_choose() -> None:
    async with running() as driver:
        await settings_of(driver, *"when to ask", "enter")
        await driver.until_screen("Picker")
        await driver.press("down", "enter")
        await driver.until(lambda: driver.host.settings.changes == [("mode", "auto")])


async def test_a_stronger_source_is_named() -> None:
    async with running() as driver:
        await settings_of(driver, *"address", "enter")
        await driver.until_screen("AskText")
        await driver.press("enter")
        await driver.until(lambda: "it comes from environment" in driver.text())


async def test_a_theme_that_is_set_shows_at_once() -> None:
    async with running() as driver:
        await settings_of(driver, *"colours", "enter")
        await driver.until_screen("Picker")
        await driver.press(*"paper", "enter")
        await driver.until(lambda: driver.app.theme == "paper")


async def test_the_settings_close_and_the_prompt_has_the_focus() -> None:
    async with running() as driver:
        await settings_of(driver, "escape")
        await driver.until_screen("Workbench")
        await driver.press("a")
        assert driver.app.workbench.prompt.text == "a"


async def test_performance_is_shown_while_it_is_asked_for() -> None:
    async with running() as driver:
        await driver.press("alt+p")
        await driver.until(lambda: "frames/s" in driver.text("#meter"))
        await driver.press("alt+p")
        assert not driver.app.screen.query_one("#meter").display


async def test_the_meter_sees_a_blocked_loop_and_costs_nothing_when_off() -> None:
    said: list[str] = []
    meter = PerfOverlay(said.append, lambda: 0, lambda: 0)
    meter.toggle()
    await asyncio.sleep(0.3)
    _block(0.2)
    await asyncio.sleep(1.0)
    meter.toggle()
    assert not meter.is_on
    longest = int(said[0].partition("longest ")[2].partition(" ms")[0])
    assert longest >= 150
    assert said[-1] == ""


def _block(seconds: float) -> None:
    import time

    time.sleep(seconds)


def test_the_meters_words() -> None:
    text = meter_text(12.4, 20480.0, 0.034, [1.0, 2.0, 40.0], 100 * 1_048_576)
    assert text == "12 frames/s · 20,480 B/s · CPU 3% · 100 MB · loop p99 40 ms, longest 40 ms, 1 over 16 ms"
