from __future__ import annotations

from tests.tui.driving import SMALL, WIDE, Driver
from tests.tui.one_app import Cases, Size

cases = Cases()


KEYS = {"f6": "/ find", "f7": "Enter open", "f8": "/ filter", "f9": "y copy"}


@cases.each(("size", "key"), [(WIDE, "f6"), (WIDE, "f8"), (SMALL, "f9"), (SMALL, "f7")])
async def the_line_of_keys_says_where_they_go(driver: Driver, size: Size, key: str) -> None:
    driver.host.session.begin_turn("go")
    driver.host.session.say("done")
    await driver.settle()
    assert "Enter send" in driver.text("#hints")
    await driver.press(key)
    assert KEYS[key] in driver.text("#hints")
    assert f"{key.capitalize()} prompt" in driver.text("#hints")
    await driver.press(key)
    assert "Enter send" in driver.text("#hints")
    await driver.press("x")
    assert driver.app.workbench.prompt.text == "x"
