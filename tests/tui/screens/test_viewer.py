from __future__ import annotations

from lmtui.tui.screens.viewer import FileView
from tests.tui.driving import Driver
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases

LINES = [f"line {number}" + (" needle" if number % 100 == 50 else "") for number in range(1, 1001)]


async def viewing(driver: Driver, name: str = "long.txt") -> FileView:
    driver.app.workbench.ready.files.open_file(name)
    await driver.until_screen("Viewer")
    view = driver.app.screen.query_one(FileView)
    await driver.until(lambda: view.source.line_count > 0)
    await driver.settle()
    return view


def host() -> FakeHost:
    found = FakeHost()
    found.files.contents = {"long.txt": "\n".join(LINES).encode()}
    return found


cases = Cases(host)


@cases
async def search_counts_marks_and_steps(driver: Driver) -> None:
    await viewing(driver)
    await driver.press("slash", *"NEEDLE")
    await driver.until(lambda: "1 of 10" in driver.text("#viewer-file"))
    await driver.press("enter", "n", "n")
    assert "3 of 10" in driver.text("#viewer-file")
    assert "line 250 needle" in driver.text("#viewer-file")
    await driver.press("N")
    assert "2 of 10" in driver.text("#viewer-file")
    await driver.press("slash", "z", "z")
    await driver.until(lambda: "not found" in driver.text("#viewer-file"))
    await driver.press("escape")
    assert "not found" not in driver.text("#viewer-file")


@cases
async def a_line_is_gone_to_by_its_number(driver: Driver) -> None:
    view = await viewing(driver)
    await driver.press("l", *"777", "enter")
    assert (view.current_line, "line 777" in driver.text("#viewer-file")) == (777, True)
    await driver.press("l", "x", "enter")
    assert (view.current_line, "a line is a number" in driver.text("#viewer-title")) == (777, True)


@cases
async def the_lines_in_view_are_mentioned_in_the_prompt(driver: Driver) -> None:
    view = await viewing(driver)
    first, last = view.lines_in_view
    await driver.press("a", "escape")
    assert driver.app.workbench.prompt.text == f"@long.txt:{first}-{last} "


@cases
async def a_file_that_cannot_be_read_says_why(driver: Driver) -> None:
    driver.app.workbench.ready.files.open_file("gone.txt")
    await driver.until_screen("Viewer")
    await driver.until(lambda: "gone.txt does not exist" in driver.text("#viewer-file"))
