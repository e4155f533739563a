from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fake_batches import PROGRESS, ROWS
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases


async def listed(driver: Driver) -> None:
    await driver.type("/batch", "BatchList")
    await driver.until_shown("lexer.py")


def host_with_batch() -> FakeHost:
    host = FakeHost()
    host.extensions.batches.rows, host.extensions.batches.progress = ROWS, PROGRESS
    return host


cases = Cases(host_with_batch)


@cases
async def tasks_say_how_they_ended_and_which_overlap_and_the_batch_is_stopped_and_resumed(driver: Driver) -> None:
    await listed(driver)
    text = driver.text()
    assert all(words in text for words in ("about 2 min left", "4 of 8 done", "[red]"))
    assert "\x1b" not in text
    await driver.press("down")
    await driver.until_shown("also changed by 3")
    await driver.until_shown("for 40 s")
    await driver.press("x")
    await driver.until(lambda: not driver.host.extensions.batches.progress)
    await driver.press("r")
    await driver.until(lambda: bool(driver.host.extensions.batches.progress))


@cases.full()
async def a_key_accepts_all_changes_or_rejects_them(driver: Driver) -> None:
    host = driver.host
    await listed(driver)
    await driver.press("down", "down", "down", "y")
    await driver.until_shown("task 4 is accepted")
    await driver.press("y")
    await driver.until_shown("is already accepted")
    await driver.press("up", "n")
    await driver.until(lambda: host.extensions.batches.rows[2].decision == "rejected")
    assert [row.decision for row in host.extensions.batches.rows] == ["accepted", "", "rejected", "accepted", *[""] * 4]
    await driver.press("down", "down", "y")
    await driver.until_shown("unchanged")
    assert host.extensions.batches.rows[4].decision == ""


@cases.full()
async def a_decision_that_cannot_be_written_down_is_told(driver: Driver) -> None:
    host = driver.host
    host.extensions.batches.is_disk_full = True
    await listed(driver)
    await driver.press("down", "n")
    await driver.until_shown("cannot be written: No space left")
    await driver.press("up", "enter", to="EffectReviewScreen")
    await driver.until_shown("cannot be written: No space left")
    assert ("Loading" in driver.text(), "Task 1  accepted" in driver.text()) == (False, True), driver.text()


@cases.full()
async def a_task_that_overlaps_with_another_is_asked_about_and_said_if_it_no_longer_fits(driver: Driver) -> None:
    host = driver.host
    host.extensions.batches.stale.add("3")
    host.extensions.batches.may_go_on.clear()
    await listed(driver)
    await driver.press("down", "down", "down", "y", "up", "up", "y", to="Confirm")
    await driver.until_shown("Other tasks")
    await driver.press("n")
    host.extensions.batches.may_go_on.set()
    await driver.until_shown("task 4 is accepted")
    assert host.extensions.batches.rows[1].decision == ""
    await driver.press("y", to="Confirm")
    await driver.press("y")
    await driver.until_shown("task 2 is accepted")
    await driver.press("down", "y", to="Confirm")
    await driver.press("y")
    await driver.until_shown("have changed since")
    await driver.until_shown("Already accepted")
    assert host.extensions.batches.rows[2].decision == ""


@cases
async def one_key_and_one_answer_accept_all_that_are_green_and_free(driver: Driver) -> None:
    host = driver.host
    await listed(driver)
    await driver.press("Y", to="Confirm")
    await driver.until_shown("Accept 1 task?")
    await driver.until_shown("need review")
    await driver.press("y")
    await driver.until_shown("task 7 is accepted")
    assert [row.decision for row in host.extensions.batches.rows] == ["accepted", "", "", "", "", "", "accepted", ""]
    assert "accept all" not in driver.text()


@cases
async def words_begin_a_batch_after_a_question_and_what_is_wrong_with_them_is_said(driver: Driver) -> None:
    host = driver.host
    await driver.type('/batch --glob "*.py" Fix {file}')
    await driver.until_shown("Start 3 tasks?")
    assert len(host.extensions.batches.opened) == 0
    await driver.press("y")
    await driver.until_shown("lexer.py")
    assert host.extensions.batches.opened == '--glob "*.py" Fix {file}'
    await driver.press("escape")
    await driver.type("/batch nothing")
    await driver.until_shown("nothing cannot be read")
    assert driver.screen_name != "Confirm"
