from __future__ import annotations

from lmtui.core.events import Outcome
from lmtui.core.sessions import Answer
from tests.tui.driving import SMALL, Driver
from tests.tui.one_app import Cases
from tests.tui.scenes import COMMAND, COMMAND_FIELDS

cases = Cases()


async def scrolled_up(driver: Driver) -> None:
    await driver.type("go")
    for number in range(60):
        driver.host.session.say(f"answer {number}")
    await driver.settle()
    await driver.press("pageup", "pageup")
    assert "answer 59" not in driver.text()


def is_following(driver: Driver) -> bool:
    return driver.transcript.scroller.is_following


@cases.at(SMALL)
async def what_is_sent_is_seen_and_followed(driver: Driver) -> None:
    await scrolled_up(driver)
    await driver.type("what now?")
    await driver.until(lambda: is_following(driver))
    driver.host.session.say("the end")
    await driver.until(lambda: "the end" in driver.text())
    await driver.press("pageup")
    assert not is_following(driver)
    await driver.type("!ls")
    await driver.until(lambda: is_following(driver))


@cases.at(SMALL)
async def what_follows_an_answer_is_seen_and_a_question_left_for_later_keeps_the_place(driver: Driver) -> None:
    await scrolled_up(driver)
    driver.host.session.ask("a1", COMMAND, **COMMAND_FIELDS)
    await driver.until_screen("Approval")
    driver.host.clock.forward(1)
    await driver.press("l", to="Workbench")
    assert not is_following(driver)
    await driver.press("f3", to="Approval")
    driver.host.clock.forward(1)
    await driver.press("y")
    await driver.until(lambda: is_following(driver))
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases.at(SMALL)
async def escapes_in_a_row_do_not_stop_the_turn_that_works(driver: Driver) -> None:
    await driver.type("go")
    await driver.type("/find-file")
    driver.app.workbench._stop.WITHIN_S = 1000.0
    for _ in range(2):
        await driver.pilot.press("escape")
    await driver.until(lambda: "Esc again to stop" in driver.text())
    assert driver.host.session.is_running
    await driver.press("escape")
    assert not driver.host.session.is_running
