from __future__ import annotations

import asyncio

import pytest
from textual import events

from lmtui.core.events import Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.modals.consent import LETTER_S
from lmtui.tui.modals.picker import Confirm
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
    assert (driver.app.workbench.prompt.text, "Set aside · F3" in driver.text()) == ("/mouse", True)
    await driver.press("enter", to="Approval")
    assert (driver.host.session.answers, driver.host.session.is_running) == ({}, True)


@cases.at(SMALL)
async def what_was_being_typed_when_it_came_up_answers_nothing_and_brings_the_prompt_back(driver: Driver) -> None:
    await driver.type("go")
    await driver.press(*"no")
    await ask(driver, is_awake=False)
    await driver.press(*"nfly")
    assert driver.app.workbench.prompt.text == "nonfly"
    assert (driver.host.session.answers, driver.screen_name) == ({}, "Workbench")
    answers: list[bool | None] = []
    _ = driver.app.push_screen(Confirm("Open this page?", "", "open"), answers.append)
    await driver.press("y", to="Workbench")
    assert (answers, driver.app.workbench.prompt.text) == ([None], "nonflyy")


@cases.at(SMALL)
async def a_paste_goes_into_the_prompt(driver: Driver) -> None:
    await ask(driver)
    driver.app.screen.post_message(events.Paste("yes, all of it"))
    await driver.until_screen("Workbench")
    assert (driver.app.workbench.prompt.text, driver.host.session.answers) == ("yes, all of it", {})


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
    found = driver.host.session.answers, driver.screen_name, driver.host.session.is_running
    assert found == ({}, "Workbench", True)


@cases.each(("key", "outcome"), [("y", Outcome.ONCE), ("n", Outcome.NO)], size=SMALL)
async def a_single_letter_answers_after_a_moment_and_over_the_explanation_too(
    driver: Driver, key: str, outcome: Outcome
) -> None:
    await ask(driver)
    await driver.press("question_mark")
    await driver.pilot.press(key)
    assert not driver.host.session.answers
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
        found = driver.host.session.answers, driver.screen_name, driver.host.session.is_running
        assert found == ({}, "Approval", True), keys
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
async def two_escapes_stop_the_turn(driver: Driver) -> None:
    await ask(driver)
    await driver.press("escape")
    assert (driver.host.session.is_running, driver.told) == (True, ["Esc again to stop"])
    await driver.press("escape")
    await driver.until(lambda: not driver.host.session.is_running)
    assert driver.host.session.answers == {}


DENIED = {"a1": Answer(Outcome.NO), "a2": Answer(Outcome.NO)}


@cases.each(("key", "sent", "answers"), [
    ("enter", (["wait"], []), DENIED), ("n", ([], ["wait"]), {}), ("escape", ([], []), {}),
], size=SMALL)  # fmt: skip
async def a_message_over_questions_asks_once_whether_it_denies_them(
    driver: Driver, key: str, sent: tuple[list[str], list[str]], answers: dict[str, Answer]
) -> None:
    await ask(driver)
    driver.host.session.ask("a2", COMMAND, **COMMAND_FIELDS)
    await driver.press("tab", to="Workbench")
    await driver.press(*"wait", "enter", to="YesNo")
    for words in ("Send this while 2 questions are open?", "y Deny and send", "n Send after this turn"):
        assert words in driver.text()
    driver.host.clock.forward(1)
    await driver.press(key)
    assert ((driver.host.session.steered, driver.host.session.queued), driver.host.session.answers) == (sent, answers)
    assert driver.app.workbench.prompt.text == ("wait" if key == "escape" else "")


@cases.each(("key", "screen"), [
    ("f2", "Switcher"), ("ctrl+p", "Picker"), ("f11", "SettingsScreen"), ("f6", ""), ("f8", ""), ("f4", ""), ("f1", "Help"),
], size=SMALL)  # fmt: skip
async def a_key_of_the_workbench_works_over_questions_which_wait(driver: Driver, key: str, screen: str) -> None:
    await ask(driver)
    driver.host.session.ask("a2", COMMAND, **COMMAND_FIELDS)
    await driver.press(key, to=screen or "Workbench")
    assert ("▲ " in driver.text() or key == "f1", driver.app.workbench.prompt.text) == (True, "")
    if key in ("ctrl+p", "f1"):
        await driver.press(*"all settings", "enter", to="SettingsScreen")
    await driver.press("escape" if screen else "f3", to="Approval")
    assert driver.host.session.answers == {}


@cases.at(SMALL)
async def the_next_question_is_there_at_once_and_what_was_written_for_one_stays(driver: Driver) -> None:
    await ask(driver)
    driver.host.session.ask("a2", COMMAND, **COMMAND_FIELDS)
    await driver.press("f")
    await driver.press(*"no build", "escape", "tab", to="Workbench")
    await driver.press("f3", to="Approval")
    driver.host.clock.forward(1)
    await driver.press("f", "enter", to="Approval")
    assert driver.host.session.answers == {"a1": Answer(Outcome.NO, feedback="no build")}
    await driver.type_fast("nm")
    assert "a2" not in driver.host.session.answers
    assert driver.app.workbench.prompt.text == "nm"
