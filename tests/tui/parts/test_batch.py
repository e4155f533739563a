from __future__ import annotations

from tests.tui.driving import Driver, running
from tests.tui.fake_batches import PROGRESS, ROWS
from tests.tui.fakes import FakeHost


async def listed(driver: Driver) -> None:
    await driver.type("/batch")
    await driver.until_screen("BatchList")
    await driver.until_shown("lexer.py")


def host_with_batch() -> FakeHost:
    host = FakeHost()
    host.extensions.batches.rows, host.extensions.batches.progress = ROWS, PROGRESS
    return host


async def test_tasks_say_how_they_ended_and_which_of_them_overlap() -> None:
    async with running(host_with_batch()) as driver:
        await listed(driver)
        text = driver.text()
        assert "about 2 min left" in text
        assert "3 of 6 done" in text
        assert "[red]" in text
        assert "\x1b" not in text
        await driver.press("down")
        await driver.until_shown("also changed by 3")


async def test_a_key_accepts_all_changes_or_rejects_them() -> None:
    host = host_with_batch()
    async with running(host) as driver:
        await listed(driver)
        await driver.press("down", "y")
        await driver.until_shown("task 2 is accepted")
        await driver.press("down", "n")
        await driver.until(lambda: host.extensions.batches.rows[2].decision == "rejected")
        assert [row.decision for row in host.extensions.batches.rows] == ["kept", "kept", "rejected", "", "", ""]
        await driver.press("down", "down", "y")
        await driver.until_shown("unchanged")
        assert host.extensions.batches.rows[4].decision == ""


async def test_changes_that_do_not_fit_any_more_are_said_and_stay_open() -> None:
    host = host_with_batch()
    host.extensions.batches.stale.add("2")
    async with running(host) as driver:
        await listed(driver)
        await driver.press("down", "y")
        await driver.until_shown("its files have changed since")
        assert host.extensions.batches.rows[1].decision == ""


async def test_enter_opens_the_review_of_a_task_with_changes() -> None:
    async with running(host_with_batch()) as driver:
        await listed(driver)
        await driver.press("down", "enter")
        await driver.until_screen("EffectReviewScreen")
        await driver.press("escape")
        await driver.until_screen("BatchList")
        await driver.press("end", "enter")
        await driver.until_shown("this task has no changes")
