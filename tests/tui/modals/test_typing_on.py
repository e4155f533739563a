from __future__ import annotations

import asyncio

import pytest
from textual import events

from lmtui.core.events import Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.modals.consent import LETTER_S
from tests.tui.driving import SMALL, Driver
from tests.tui.one_app import Cases
from tests.tui.scenes import COMMAND, COMMAND_FIELDS

cases = Cases()


@pytest.fixture(autouse=True)
def _letters_wait_briefly() -> None:
    """Here they wait as long as in the app."""


async def ask(driver: Driver, *, is_awake: bool = True) -> None:
    if not driver.host.session.is_running:
        await driver.type("go")
    driver.host.session.ask("a1", COMMAND, **COMMAND_FIELDS)
    await driver.until_screen("Approval")
    if is_awake:
        driver.host.clock.forward(1)
        await driver.settle()


@cases.full(SMALL)
async def a_slash_command_goes_into_the_prompt_and_the_question_comes_back_behind_it(driver: Driver) -> None:
    await ask(driver)
    assert "Enter send" not in driver.text()
    await driver.press(*"/mouse")
    assert driver.app.workbench.prompt.text == "/mouse"
    assert "Question postponed" in driver.text()
    await driver.press("enter", to="Approval")
    assert not driver.host.session.answers
    assert driver.host.session.is_running


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
    await ask(driver)
    driver.app.screen.post_message(events.Paste("yes, all of it"))
    await driver.until_screen("Workbench")
    assert driver.app.workbench.prompt.text == "yes, all of it"
    assert not driver.host.session.answers


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
    await driver.press("backspace", to="Approval")


@cases.each("words", ["so what", "Yes"], size=SMALL)
async def a_sentence_answers_nothing_by_its_first_letter_and_goes_to_the_prompt(driver: Driver, words: str) -> None:
    await ask(driver)
    await driver.type_fast(words)
    await driver.until(lambda: driver.app.workbench.prompt.text == words)
    await asyncio.sleep(2 * LETTER_S)
    assert not driver.host.session.answers
    assert driver.app.screen is driver.app.workbench
    assert driver.host.session.is_running


@cases.each(("key", "outcome"), [("y", Outcome.ONCE), ("n", Outcome.NO)], size=SMALL)
async def a_single_letter_answers_after_a_moment_and_from_the_explanation_too(
    driver: Driver, key: str, outcome: Outcome
) -> None:
    await ask(driver)
    await driver.pilot.press(key)
    assert not driver.host.session.answers
    await driver.until(lambda: "a1" in driver.host.session.answers)
    driver.host.session.answers.clear()
    await ask(driver)
    await driver.press("question_mark", to="Explanation")
    await driver.press(key, to="Approval")
    driver.host.clock.forward(1)
    await driver.until(lambda: driver.host.session.answers == {"a1": Answer(outcome)})
    await driver.until_screen("Workbench")


@cases.at(SMALL)
async def a_letter_in_the_dead_time_or_taken_back_at_once_does_not_answer_after_it(driver: Driver) -> None:
    await ask(driver, is_awake=False)
    await driver.pilot.press("y")
    driver.host.clock.forward(1)
    await driver.settle()
    for keys in ([], ["y", "escape"], ["y", "backspace"]):
        await driver.pilot.press(*keys)
        await asyncio.sleep(2 * LETTER_S)
        await driver.settle()
        assert not driver.host.session.answers, keys
        assert driver.screen_name == "Approval"
        assert driver.host.session.is_running
    await driver.type_fast("yy")
    await driver.until(lambda: driver.host.session.answers == {"a1": Answer(Outcome.ONCE)})


@cases.at(SMALL)
async def a_letter_and_enter_are_words_and_are_not_sent(driver: Driver) -> None:
    await ask(driver)
    await driver.pilot.press("y", "enter")
    await driver.until(lambda: driver.app.workbench.prompt.text == "y")
    assert not driver.host.session.answers


@cases.each("key", ["f3", "tab"], size=SMALL)
async def a_key_goes_back_to_the_question_from_what_was_typed_and_the_text_stays(driver: Driver, key: str) -> None:
    await ask(driver)
    mode = driver.host.session.mode
    await driver.press(*"wait")
    assert "1 approval needed  F3" in driver.text("#activity"), driver.text("#activity")
    await driver.press(key, to="Approval")
    assert driver.app.workbench.prompt.text == "wait"
    assert driver.host.session.mode is mode


@cases.at(SMALL)
async def a_message_sent_while_a_question_is_open_is_queued_and_two_escapes_stop_the_turn(driver: Driver) -> None:
    await ask(driver)
    await driver.press(*"wait", "enter", to="Approval")
    assert driver.host.session.queued == ["wait"]
    assert driver.told == ["Queued to send after this turn: wait"]
    await driver.press("escape")
    assert driver.host.session.is_running
    assert driver.told[1:] == ["Esc again to stop"]
    await driver.press("escape")
    await driver.until(lambda: not driver.host.session.is_running)
    assert driver.host.session.answers == {}
