from __future__ import annotations

from textual import events
from textual.keys import _character_to_key

from lmtui.tui.timing import PasteDetector
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()


async def burst(driver: Driver, *keys: str) -> None:
    for key in keys:
        character = key if len(key) == 1 else None
        event = events.Key(_character_to_key(key) if character else key, character)
        event.set_sender(driver.app)
        driver.app.post_message(event)
    await driver.settle()
    await driver.until(lambda: driver.app.workbench.prompt._held_enter is None)
    await driver.settle()


@cases.each(
    ("keys", "text"),
    [
        ([*"abc", "ctrl+a", "X"], "Xabc"),
        ([*"hello world", "ctrl+w", *"moon"], "hello moon"),
        ([*"abc", "ctrl+u", *"new"], "new"),
        ([*"abc", "left", "backspace", "X"], "aXc"),
        ([*"one", "ctrl+j", *"two", "up", "X"], "oneX\ntwo"),
    ],
)
async def keys_pressed_in_a_burst_take_effect_in_their_order(driver: Driver, keys: list[str], text: str) -> None:
    await burst(driver, *keys)
    assert driver.app.workbench.prompt.text == text


@cases
async def a_line_typed_anew_in_a_burst_is_sent_as_typed_last(driver: Driver) -> None:
    await burst(driver, *"wrong", "ctrl+u", *"right", "enter")
    await burst(driver, *"next")
    assert driver.host.session.submitted == ["right"]
    assert driver.app.workbench.prompt.text == "next"


@cases
async def lines_that_come_faster_than_a_person_types_are_a_paste_and_not_sent(driver: Driver) -> None:
    await burst(driver, *"one", "enter", *"two", "enter", "enter", *"three", "enter")
    assert driver.host.session.submitted == []
    assert driver.app.workbench.prompt.text == "one\ntwo\n\nthree"
    await driver.press("enter")
    assert driver.host.session.submitted == ["one\ntwo\n\nthree"]


@cases
async def tab_in_a_burst_completes_what_was_typed_before_it(driver: Driver) -> None:
    await burst(driver, *"/hel", "tab", "!")
    assert driver.app.workbench.prompt.text == "/help!"
    driver.app.workbench.prompt.replace_text("")
    await burst(driver, *"hello", "tab")
    assert not driver.app.workbench.prompt.has_focus


@cases.each("text", ["a\x1b]0;owned\x07b", "a\x9b2Jb", "a\u202eb\x08", "a\ud800b"])
async def no_control_character_of_the_prompt_reaches_the_terminal(driver: Driver, text: str) -> None:
    prompt = driver.app.workbench.prompt
    prompt.replace_text(text)
    await driver.pilot.pause()
    drawn = prompt.render_line(0).text
    assert drawn.startswith("a")
    assert all(char.isprintable() for char in drawn)
    assert prompt.text == text


def test_a_large_paste_that_is_read_in_pieces_stays_one_burst() -> None:
    keys = PasteDetector()
    for number in range(20):
        keys.take(number * 0.001)
    keys.lines = 3
    assert keys.take(0.1), "drawing what was read took its time"
    assert keys.lines == 3
    assert not keys.take(1.0)
    assert keys.lines == 0


@cases
async def undo_of_more_lines_than_the_prompt_shows_takes_them_away(driver: Driver) -> None:
    driver.app.workbench.prompt.insert("\n".join(f"line {number}" for number in range(50)))
    await driver.settle()
    assert driver.app.workbench.prompt.document.line_count == 50
    await driver.press("ctrl+underscore")
    assert "\n" not in driver.app.workbench.prompt.text
    await driver.press("ctrl+y")
    assert driver.app.workbench.prompt.document.line_count == 50
