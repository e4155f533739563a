from __future__ import annotations

import asyncio

import pytest
from textual import events

from lmtui.core.events import Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.modals.consent import LETTER_S
from tests.tui.driving import SMALL, Driver, running
from tests.tui.one_app import Cases
from tests.tui.scenes import COMMAND, COMMAND_FIELDS

cases = Cases()


@pytest.fixture(autouse=True)
def _letters_wait_briefly() -> None:
    """Here they wait as long as in the app."""


async def ask(driver: Driver, *, is_awake: bool = True) -> None:
    driver.host.session.ask("a1", COMMAND, **COMMAND_FIELDS)
    await driver.until_screen("Approval")
    if is_awake:
        driver.host.clock.forward(1)
        await driver.settle()


@cases.at(SMALL)
async def a_slash_command_goes_into_the_prompt_and_the_question_comes_back_behind_it(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press(*"/mouse")
    assert driver.app.workbench.prompt.text == "/mouse"
    assert "Question postponed" in driver.text()
    await driver.press("enter")
    await driver.until_screen("Approval")
    assert not driver.host.session.answers
    assert driver.host.session.is_running


@cases.at(SMALL)
async def a_reply_gets_the_prompt_however_many_questions_wait(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    driver.host.session.ask("a2", "make b")
    await driver.until(lambda: "1 of 2" in driver.text())
    await driver.press("tab")
    await driver.until_screen("Workbench")
    await driver.press(*"wait")
    assert driver.app.workbench.prompt.text == "wait"
    assert "▲ 2" in driver.text()
    await driver.press(*["backspace"] * 4)
    await driver.until_screen("Approval")
    assert "1 of 2" in driver.text()


@cases.at(SMALL)
async def words_that_are_taken_back_bring_the_question_back(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press(*"wait")
    assert driver.app.workbench.prompt.text == "wait"
    await driver.press(*["backspace"] * 4)
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.settle()
    await driver.press("y")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases.at(SMALL)
async def what_was_being_typed_when_it_came_up_answers_nothing_and_is_kept(driver: Driver) -> None:
    await driver.type("go")
    await driver.press(*"no")
    await ask(driver, is_awake=False)
    await driver.press(*"nfly")
    assert driver.app.workbench.prompt.text == "nonfly"
    assert not driver.host.session.answers
    driver.host.clock.forward(1)
    await driver.settle()
    await driver.press("n")
    assert driver.host.session.answers["a1"] == Answer(Outcome.NO)
    assert driver.app.workbench.prompt.text == "nonfly"


@cases.at(SMALL)
async def a_paste_goes_into_the_prompt(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    driver.app.screen.post_message(events.Paste("yes, all of it"))
    await driver.until(lambda: driver.app.screen is driver.app.workbench)
    await driver.settle()
    assert driver.app.workbench.prompt.text == "yes, all of it"
    assert not driver.host.session.answers


@cases.at(SMALL)
async def the_line_of_keys_says_that_they_go_to_the_question(driver: Driver) -> None:
    await driver.type("go")
    assert "Enter send" in driver.text()
    await ask(driver)
    assert "Enter send" not in driver.text()
    await driver.press("n")
    await driver.until(lambda: driver.app.screen is driver.app.workbench)
    await driver.settle()
    assert "Enter send" in driver.text()


@cases.at(SMALL)
async def of_several_questions_none_takes_the_words_that_one_made_room_for(driver: Driver) -> None:
    await driver.type("go")
    for approval_id in ("a1", "a2", "a3"):
        driver.host.session.ask(approval_id, COMMAND, **COMMAND_FIELDS)
    await driver.until_screen("Approval")
    for key in "hey":
        driver.host.clock.forward(1)
        await driver.settle()
        await driver.press(key)
    assert driver.app.workbench.prompt.text == "hey"
    assert not driver.host.session.answers
    await driver.press("backspace", "backspace")
    assert driver.app.screen is driver.app.workbench
    await driver.press("backspace")
    await driver.until_screen("Approval")


@cases.at(SMALL)
async def words_over_a_question_that_was_answered_elsewhere_hold_up_no_other(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press(*"hi")
    driver.host.session.answer("a1", Answer(Outcome.NO))
    await driver.settle()
    driver.host.session.ask("a2", COMMAND, **COMMAND_FIELDS)
    await driver.until_screen("Approval")


@cases.at(SMALL)
async def the_key_of_the_next_question_brings_it_back_over_the_words(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press(*"hi")
    await driver.press("f3")
    await driver.until_screen("Approval")
    assert driver.app.workbench.prompt.text == "hi"


@cases.each(
    "words",
    ["so what", "also use b", "yes but first", "no way", "later please", "sure", "just skip it", "Yes", "yay", "sk", "kept"],
    size=SMALL,
)
async def a_sentence_answers_nothing_by_its_first_letter_and_goes_to_the_prompt(driver: Driver, words: str) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.type_fast(words)
    await driver.until(lambda: driver.app.workbench.prompt.text == words)
    await asyncio.sleep(2 * LETTER_S)
    assert not driver.host.session.answers
    assert driver.app.screen is driver.app.workbench
    assert driver.host.session.is_running


@cases.each("key", ["y", "s", "n"], size=SMALL)
async def a_single_letter_answers_after_a_moment(driver: Driver, key: str) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.pilot.press(key)
    assert not driver.host.session.answers
    await driver.until(lambda: "a1" in driver.host.session.answers)


@cases.at(SMALL)
async def a_letter_in_the_dead_time_does_not_answer_after_it(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver, is_awake=False)
    await driver.pilot.press("y")
    driver.host.clock.forward(1)
    await driver.settle()
    await asyncio.sleep(2 * LETTER_S)
    assert not driver.host.session.answers
    await driver.press("y")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases.each("key", ["escape", "backspace"], size=SMALL)
async def a_letter_can_be_taken_back_at_once(driver: Driver, key: str) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.pilot.press("y", key)
    await asyncio.sleep(2 * LETTER_S)
    await driver.settle()
    assert not driver.host.session.answers
    assert driver.app.screen is not driver.app.workbench
    assert driver.host.session.is_running


@cases.at(SMALL)
async def a_letter_and_enter_are_words_and_are_not_sent(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.pilot.press("y", "enter")
    await driver.until(lambda: driver.app.workbench.prompt.text == "y")
    assert not driver.host.session.answers


@cases.at(SMALL)
async def the_same_letter_twice_counts(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.type_fast("yy")
    await driver.until(lambda: "a1" in driver.host.session.answers)


@cases.at(SMALL)
async def one_escape_does_not_stop_the_turn_that_waits_and_two_do(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press("escape")
    assert driver.host.session.is_running
    assert [each.message for each in driver.app._notifications] == ["Esc again to stop"]
    await driver.press("escape")
    await driver.until(lambda: not driver.host.session.is_running)


@cases.each("key", ["f3", "tab", "shift+tab"], size=SMALL)
async def a_key_goes_back_to_the_question_from_what_was_typed_and_the_text_stays(driver: Driver, key: str) -> None:
    await driver.type("go")
    await ask(driver)
    mode = driver.host.session.mode
    await driver.press(*"wait")
    assert "1 approval needed  F3" in driver.text("#activity"), driver.text("#activity")
    await driver.press(key)
    await driver.until_screen("Approval")
    assert driver.app.workbench.prompt.text == "wait"
    assert driver.host.session.mode is mode


@cases.at(SMALL)
async def tab_goes_to_the_empty_prompt_and_stays_there(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press("tab")
    await driver.until_screen("Workbench")
    await driver.press(*"wait")
    assert driver.app.workbench.prompt.text == "wait"
    assert driver.host.session.answers == {}


async def test_a_message_sent_while_a_question_is_open_is_said_to_be_queued() -> None:
    async with running(size=SMALL) as driver:
        await driver.type("go")
        await ask(driver)
        await driver.press(*"wait", "enter")
        await driver.until_screen("Approval")
        assert driver.host.session.queued == ["wait"]
        assert [each.message for each in driver.app._notifications] == ["Queued to send after this turn: wait"]


@cases
async def the_hint_of_a_question_says_that_escape_stops_the_second_time(driver: Driver) -> None:
    await driver.type("go")
    await ask(driver)
    assert "Esc Esc stop" in driver.text()


@cases.each(("key", "outcome"), [("y", Outcome.ONCE), ("n", Outcome.NO), ("s", Outcome.SESSION)])
async def a_key_that_the_explanation_names_answers_from_there(driver: Driver, key: str, outcome: Outcome) -> None:
    await driver.type("go")
    await ask(driver)
    await driver.press("question_mark")
    await driver.until_screen("Explanation")
    await driver.press(key)
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.until(lambda: "a1" in driver.host.session.answers)
    assert driver.host.session.answers["a1"].outcome is outcome
    await driver.until_screen("Workbench")
    await driver.settle()


async def test_the_cases() -> None:
    await cases.run()
