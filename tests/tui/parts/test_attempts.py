"""The page of attempts: what its keys do."""

from __future__ import annotations

from dataclasses import replace

from lmtui.core.errors import UsageError
from lmtui.features.attempt_values import AttemptState
from tests.tui.driving import Driver
from tests.tui.one_app import Cases
from tests.tui.scenes_attempts import some_attempts, working

cases = Cases()


async def opened(driver: Driver) -> None:
    driver.host.extensions.attempts.task = "Fix it"
    driver.host.extensions.attempts.show(some_attempts())
    await driver.type("/attempts", "AttemptList")


@cases
async def a_task_behind_a_number_begins_attempts_and_shows_them(driver: Driver) -> None:
    await driver.type("/attempts 4 repair the date parser", "AttemptList")
    assert driver.host.extensions.attempts.begun == [("repair the date parser", 4, driver.host.session.id)]
    await driver.until_shown("4 running")
    await driver.press("escape")
    await driver.type("/attempts repair it", "AttemptList")
    assert driver.host.extensions.attempts.begun[1][:2] == ("repair it", 3)


@cases
async def an_attempt_is_used_only_by_its_key_and_a_refusal_is_said(driver: Driver) -> None:
    await opened(driver)
    await driver.press("home", "enter", "escape")
    assert all(each.state is AttemptState.OVER for each in driver.host.extensions.attempts.rows)
    driver.host.extensions.attempts.failure = UsageError("a turn is running", "Stop it.")
    await driver.press("y")
    assert "A turn is running" in driver.text() or "a turn is running" in driver.text()
    driver.host.extensions.attempts.failure = None
    await driver.press("y")
    assert driver.host.extensions.attempts.rows[1].state is AttemptState.USED
    assert "Changes of attempt 2 are in your folder; /undo reverts them." in driver.text()


@cases
async def one_more_runs_one_stops_and_all_are_dropped_after_a_question(driver: Driver) -> None:
    driver.host.extensions.attempts.show(working())
    await driver.type("/attempts", "AttemptList")
    await driver.press("down", "down", "x", "r")
    assert driver.host.extensions.attempts.stopped == [3]
    assert len(driver.host.extensions.attempts.rows) == 5
    await driver.press("y", "v")
    assert driver.screen_name == "AttemptList"
    await driver.press("N", to="Confirm")
    await driver.press("n")
    assert driver.host.extensions.attempts.rows
    await driver.press("N", to="Confirm")
    await driver.press("y")
    assert not driver.host.extensions.attempts.rows
    assert "No attempts yet" in driver.text()


@cases.full()
async def hostile_names_are_cleaned_and_the_log_of_an_attempt_is_its_session(driver: Driver) -> None:
    driver.host.extensions.attempts.task = "x\x1b[2Jy"
    driver.host.extensions.attempts.show([replace(each, model="a\x1b[31mb\u202e") for each in some_attempts()])
    await driver.type("/attempts", "AttemptList")
    assert not {"\x1b", "\u202e"} & set(driver.text())
    await driver.press("home", "v")
    wanted = driver.host.extensions.attempts.rows[1].session
    await driver.until(lambda: driver.view.session.id == wanted)
