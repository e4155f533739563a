from __future__ import annotations

import asyncio

from lmtui.core.events import Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.modals.consent import LETTER_S
from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.one_app import Cases
from tests.tui.scenes_diffs import CHANGE, HUNKS

cases = Cases()


async def ask(driver: Driver, diff: str = CHANGE, hunks: int = HUNKS) -> None:
    await driver.type("go")
    driver.host.session.ask("a1", "edit", tool="edit", diff=diff, path="parser/lexer.py", hunks=hunks)
    await driver.until(lambda: driver.screen_name == "HunkApproval" or hunks < 2)
    await driver.settle()
    driver.host.clock.forward(1)


async def press(driver: Driver, *keys: str) -> None:
    for key in keys:
        await driver.press(key)
        driver.host.clock.forward(1)


@cases.at(WIDE)
async def hunks_are_decided_one_by_one_and_then_applied_by_enter(driver: Driver) -> None:
    await ask(driver)
    assert "Hunk 1 of 3" in driver.text()
    for words in ("u one column", "u side by side", "u one column"):
        await press(driver, "question_mark")
        assert words in driver.text()
        await press(driver, "question_mark", "u")
    await press(driver, "n", "up", "y")
    assert driver.host.session.answers == {}
    assert "✓ 1" in driver.text()
    assert "1 accepted · 2 undecided" in driver.text()
    await press(driver, "n", "y")
    assert driver.host.session.answers == {}
    assert "Apply 2 of 3" in driver.text()
    await press(driver, "enter")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE, hunks=(0, 2))


@cases.each(
    ("keys", "answer"),
    [
        (("Y",), Answer(Outcome.ONCE)),
        (("N",), Answer(Outcome.NO)),
        (("y", "y", "y", "enter"), Answer(Outcome.ONCE)),
        (("n", "n", "n", "enter"), Answer(Outcome.NO)),
        (("down", "down", "up", "y", "n", "n", "enter"), Answer(Outcome.ONCE, hunks=(1,))),
        (("f", *"why", "enter"), Answer(Outcome.NO, feedback="why")),
        (("down", "y", "left", "enter"), Answer(Outcome.ONCE, hunks=(1,))),
        (("y", "l", "f3", "y", "d"), Answer(Outcome.ONCE, hunks=(0, 1))),  # it comes back at the first that is open
        (("s",), Answer(Outcome.SESSION)),
    ],
    size=(160, 60),
)
async def keys_answer(driver: Driver, keys: tuple[str, ...], answer: Answer) -> None:
    await ask(driver)
    await press(driver, *keys)
    assert driver.host.session.answers["a1"] == answer


@cases.at((160, 60))
async def each_quick_key_decides_a_hunk_and_none_of_them_applies_the_change(driver: Driver) -> None:
    await ask(driver)
    await driver.type_fast("yyyyy")
    await driver.let_letter_count()
    await driver.settle()
    assert "3 accepted" in driver.text()
    assert driver.host.session.answers == {}


@cases.at(SMALL)
async def a_hunk_counts_only_after_its_end_was_seen_and_all_of_them_after_the_end_of_all(driver: Driver) -> None:
    long = "@@ -0,0 +1,100 @@\n" + "".join(f"+new {number}\n" for number in range(100)) + "@@ -50,1 +150,1 @@\n-a\n+b\n"
    await ask(driver, long, 2)
    assert ("y Read on" in driver.text(), "Accept all" in driver.text()) == (True, False)
    await press(driver, "y", "Y")
    assert driver.host.session.answers == {}
    assert "2 undecided" in driver.text()
    await press(driver, *["space"] * 20)
    await asyncio.sleep(LETTER_S)  # what follows at once would be part of a text
    await press(driver, "up", "y")
    assert "1 accepted" in driver.text()
    await press(driver, "Y")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)


@cases.at(WIDE)
async def a_change_that_the_engine_cannot_divide_is_asked_about_as_a_whole(driver: Driver) -> None:
    await ask(driver, CHANGE, 0)
    await driver.until_screen("Approval")
    await press(driver, "y")
    assert driver.host.session.answers["a1"] == Answer(Outcome.ONCE)
