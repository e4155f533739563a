from __future__ import annotations

from pathlib import Path

from textual import events

from lmtui.plain_files import editor_command
from tests.sets import for_each
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()

FILE = Path("/w/a.py")


@for_each(
    ("environment", "line", "expected"),
    [
        ({"VISUAL": "vim -n", "EDITOR": "nano"}, 7, ["vim", "-n", "+7", "/w/a.py"]),
        ({"EDITOR": "nano"}, 0, ["nano", "/w/a.py"]),
        ({"EDITOR": "/usr/bin/code --wait"}, 7, ["/usr/bin/code", "--wait", "-g", "/w/a.py:7"]),
        ({"EDITOR": "'broken"}, 0, ["'broken", "/w/a.py"]),
    ],
)
def test_an_editor_is_told_the_line_in_its_own_way(environment: dict[str, str], line: int, expected: list[str]) -> None:
    assert editor_command(FILE, line, environment) == expected


@cases
async def where_the_terminal_cannot_be_given_away_the_text_stays_and_it_is_said(driver: Driver) -> None:
    driver.app.workbench.prompt.replace_text("half a thought")
    await driver.press("ctrl+g")
    await driver.until(lambda: "cannot be opened here" in driver.text("#say"))
    prompt = driver.app.workbench.prompt
    assert prompt.text == "half a thought"
    prompt.replace_text("")
    for letter in "half":
        prompt.post_message(events.Key(letter, letter))
    assert prompt.text == ""
    await prompt.settle()
    assert prompt.text == "half"
