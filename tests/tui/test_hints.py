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


@cases
async def one_error_does_not_hide_another(driver: Driver) -> None:
    driver.app.workbench.say("keys.toml: line 3", "error")
    driver.app.workbench.say("layout.json: line 1", "error")
    driver.app.workbench.say("layout.json: line 1", "error")
    await driver.settle()
    text = driver.text("#say")
    assert "keys.toml: line 3" in text
    assert text.count("layout.json: line 1") == 1
    await driver.type("go on")
    assert not driver.app.screen.query_one("#say").display


@cases
async def the_title_of_the_pane_in_focus_stands_out(driver: Driver) -> None:
    driver.host.session.begin_turn("go")
    await driver.settle()
    title = driver.app.screen.query_one("#files-title")

    def color() -> object:
        segments = driver.strips()[title.region.y]
        return next(segment.style.color for segment in segments if segment.text.startswith("Files") and segment.style)

    before = color()
    await driver.press("f6")
    assert color() != before
    await driver.press("f6")
    assert color() == before
