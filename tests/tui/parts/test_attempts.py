"""The page of attempts: what its keys do."""

from __future__ import annotations

from dataclasses import replace

from lmtui.core.attempt_values import AttemptState
from lmtui.core.errors import UsageError
from tests.tui.driving import Driver
from tests.tui.one_app import Cases
from tests.tui.scenes_attempts import attempts, some_attempts, working
from tests.tui.scenes_effects import FakeReview

cases = Cases()


async def opened(driver: Driver) -> None:
    driver.host.attempts.task = "Fix it"
    driver.host.attempts.show(some_attempts())
    await driver.type("/attempts", "AttemptsScreen")


@cases
async def a_task_behind_a_number_begins_attempts_and_shows_them(driver: Driver) -> None:
    await driver.type("/attempts 4 repair the date parser", "AttemptsScreen")
    assert driver.host.attempts.begun == [("repair the date parser", 4, driver.host.session.id)]
    await driver.until_shown("4 running")
    await driver.press("escape")
    await driver.type("/attempts repair it", "AttemptsScreen")
    assert driver.host.attempts.begun[1][:2] == ("repair it", 3)


@cases
async def the_page_goes_on_with_the_attempts(driver: Driver) -> None:
    driver.host.attempts.show(working())
    await driver.type("/attempts", "AttemptsScreen")
    assert "2 done, 2 running" in driver.text()
    assert "Best" not in driver.text()
    await driver.press("ctrl+q", to="Confirm")
    assert "2 agents are working" in driver.text()
    await driver.press("n", to="AttemptsScreen")
    driver.host.attempts.show(some_attempts())
    await driver.settle()
    assert "Best: all checks pass with the smallest change." in driver.text()
    assert driver.text().index("  2 · qwen3-coder-30b") < driver.text().index("  4 · qwen3-14b")


@cases
async def two_marked_attempts_are_compared_file_by_file(driver: Driver) -> None:
    await attempts(driver)
    assert "file 1 of 2" in driver.text()
    assert "stack.append" in driver.text()
    assert "depth += 1" in driver.text()
    await driver.press("right_square_bracket")
    assert "file 2 of 2" in driver.text()
    assert driver.text().count("def test_nested") == 2
    await driver.press("left_square_bracket", "down", "down", "down", "space")
    assert "This attempt leaves" not in driver.text()
    await driver.press("right_square_bracket")
    assert "This attempt did not change the file." in driver.text()


@cases
async def an_attempt_is_used_only_by_its_key_and_a_refusal_is_said(driver: Driver) -> None:
    await opened(driver)
    await driver.press("home", "enter", "escape")
    assert all(each.state is AttemptState.OVER for each in driver.host.attempts.rows)
    driver.host.attempts.failure = UsageError("a turn is running", "Stop it.")
    await driver.press("y")
    assert "A turn is running" in driver.text() or "a turn is running" in driver.text()
    driver.host.attempts.failure = None
    await driver.press("y")
    assert driver.host.attempts.rows[1].state is AttemptState.USED
    assert "Changes of attempt 2 are in your folder; /undo reverts them." in driver.text()


@cases
async def one_more_runs_one_stops_and_all_are_dropped_after_a_question(driver: Driver) -> None:
    driver.host.attempts.show(working())
    await driver.type("/attempts", "AttemptsScreen")
    await driver.press("down", "down", "x", "r")
    assert driver.host.attempts.stopped == [3]
    assert len(driver.host.attempts.rows) == 5
    await driver.press("y", "o")
    assert driver.screen_name == "AttemptsScreen"
    await driver.press("D", to="Confirm")
    await driver.press("n")
    assert driver.host.attempts.rows
    await driver.press("D", to="Confirm")
    await driver.press("y")
    assert not driver.host.attempts.rows
    assert "No attempts yet" in driver.text()


@cases
async def hostile_names_are_cleaned_and_the_log_of_an_attempt_is_its_session(driver: Driver) -> None:
    driver.host.attempts.task = "x\x1b[2Jy"
    driver.host.attempts.show([replace(each, model="a\x1b[31mb\u202e") for each in some_attempts()])
    await driver.type("/attempts", "AttemptsScreen")
    assert not {"\x1b", "\u202e"} & set(driver.text())
    await driver.press("home", "o")
    wanted = driver.host.attempts.rows[1].session
    await driver.until(lambda: driver.view.session.id == wanted)


@cases.each("words", ["use 2", "stop 2", "again 2", "diff 2", "discard"])
async def what_is_typed_does_what_the_keys_do(driver: Driver, words: str) -> None:
    driver.host.attempts.show(some_attempts())
    await driver.type(f"/attempts {words}")
    if words == "discard":
        await driver.until_screen("Confirm")
        assert driver.host.attempts.rows
        await driver.press("y")
    rows = driver.host.attempts
    done = {
        "use 2": lambda: rows.rows[1].state is AttemptState.USED,
        "stop 2": lambda: rows.stopped == [2],
        "again 2": lambda: len(rows.rows) == 5,
        "diff 2": lambda: "Attempt 2" in driver.text(),
        "discard": lambda: not rows.rows,
    }
    await driver.until(done[words])
    said = {"again 2": "Started one more attempt.", "discard": "Discarded all attempts."}
    await driver.until_shown(said.get(words, ""))


@cases
async def hunks_of_an_attempt_are_chosen_on_the_page_of_effects(driver: Driver) -> None:
    await opened(driver)
    review = driver.host.attempts.reviewed = FakeReview()
    await driver.press("home", "m", to="EffectReviewScreen")
    assert "Attempt 2" in driver.text()
    await driver.press("down", "space", "y")
    assert review.kept
    await driver.press("escape", to="AttemptsScreen")
