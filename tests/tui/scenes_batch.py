"""Moments of the list of a batch."""

from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fake_batches import PROGRESS, ROWS
from tests.tui.fakes import play_work


async def batch(driver: Driver) -> None:
    """Six tasks, while one runs."""
    play_work(driver.host.session)
    driver.host.extensions.batches.rows, driver.host.extensions.batches.progress = ROWS, PROGRESS
    await driver.type("/batch")
    await driver.until_screen("BatchList")
    await driver.until_shown("lexer.py")
    await driver.press("down")


async def batch_none(driver: Driver) -> None:
    """No batch yet."""
    await driver.type("/batch")
    await driver.until_screen("BatchList")
    await driver.until_shown("No batch yet")


BATCH_SCENES = (("batch_tasks", batch), ("batch_none", batch_none))
