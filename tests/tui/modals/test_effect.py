from __future__ import annotations

from typing import Any

from lmtui.core.events import Outcome
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EffectKind, EffectPart
from tests.tui.driving import WIDE, Driver
from tests.tui.one_app import Cases
from tests.tui.scenes_effects import EFFECT, FIELDS

cases = Cases()

LIST, DIFF = "#effect-list", "#effect-change"
UNDELETED = (2, 3, 4, 5, 6, 7, 8, 9)


async def ask(driver: Driver, **fields: Any) -> None:
    await driver.type("go")
    driver.host.session.ask("a1", EFFECT, **{**FIELDS, **fields})
    await driver.until_screen("EffectApproval")
    driver.host.clock.forward(1)


@cases.each(
    ("keys", "answer"),
    [
        (("y",), Answer(Outcome.ONCE, hunks=UNDELETED)),
        (("enter",), Answer(Outcome.ONCE, hunks=UNDELETED)),
        (("n",), Answer(Outcome.NO)),
        (("d", "y"), Answer(Outcome.ONCE)),
        (("e", "y"), Answer(Outcome.ONCE)),
        (("space", "y"), Answer(Outcome.ONCE, hunks=(0, *UNDELETED))),
        (("down", "down", "space", "y"), Answer(Outcome.ONCE, hunks=UNDELETED[1:])),
        (
            ("down", "down", "down", "c", "down", "space", "y"),
            Answer(Outcome.ONCE, hunks=(2, 3, 5, 6, 7, 8, 9)),
        ),
        (("f", *"why", "enter"), Answer(Outcome.NO, feedback="why")),
        (("right", "enter"), Answer(Outcome.NO)),
    ],
    size=WIDE,
)
async def keys_answer(driver: Driver, keys: tuple[str, ...], answer: Answer) -> None:
    await ask(driver)
    await driver.press(*keys)
    assert driver.host.session.answers["a1"] == answer


@cases.at(WIDE)
async def no_key_decides_in_the_first_moment_and_a_word_goes_to_the_prompt(driver: Driver) -> None:
    await ask(driver)
    driver.host.clock.forward(-1)
    await driver.press("space", "y", "enter", "d")
    assert driver.host.session.answers == {}
    assert "apply 6 · 2 deletions" in driver.text()
    driver.host.clock.forward(1)
    await driver.type_fast("yes do")
    assert driver.app.workbench.prompt.text == "yes do"
    assert driver.host.session.answers == {}
    await driver.until_screen("Workbench")
    await driver.press("f3", to="EffectApproval")


@cases.at(WIDE)
async def tab_and_l_leave_and_what_was_chosen_is_there_again_when_the_question_comes_back(driver: Driver) -> None:
    await driver.type("go")  # so that what is sent next is queued
    await ask(driver)
    await driver.press("space", "l", to="Workbench")
    assert driver.transcript.covered_rows > 0
    await driver.press("f3", to="EffectApproval")
    assert "apply 6 · delete 1 · 1 deletion undecided" in driver.text()
    driver.host.clock.forward(1)
    await driver.press("tab", to="Workbench")
    assert driver.host.session.answers == {}


@cases.at(WIDE)
async def while_nothing_is_chosen_nothing_can_be_applied(driver: Driver) -> None:
    deleted = (EffectPart("a", EffectKind.DELETED), EffectPart("b", EffectKind.DELETED))
    await ask(driver, parts=deleted, hunks=2)
    assert "2 deletions undecided, their files stay" in driver.text()
    await driver.press("y")
    await driver.until(lambda: any("Space: delete or keep" in words for words in driver.told))
    assert driver.host.session.answers == {}
    await driver.press("enter", "y")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE, hunks=(0,))


@cases.full(WIDE)
async def escape_leaves_the_diff_first_and_stops_only_twice(driver: Driver) -> None:
    await ask(driver)
    await driver.press("alt+z")
    assert "Deleted 2" not in driver.text()
    await driver.press("escape")
    assert "Deleted 2" in driver.text()
    await driver.press("escape", to="EffectApproval")
    await driver.press("escape")
    assert not driver.host.session.is_running


@cases.full(WIDE)
async def with_others_it_is_numbered_not_allowed_together_with_them_and_says_why_it_is_asked(driver: Driver) -> None:
    await ask(driver)
    driver.host.session.ask("a2", "make")
    await driver.until(lambda: "1 of 2" in driver.text())
    await driver.press("r", to="Batch")
    assert ("Allow all" in driver.text(), "Deny all" in driver.text()) == (False, True)
    await driver.press("escape", "question_mark")
    assert "nothing has changed in your folder" in driver.text()
