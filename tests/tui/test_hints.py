from __future__ import annotations

import pytest

from tests.tui.driving import SMALL, WIDE, running


@pytest.mark.parametrize("size", [WIDE, SMALL])
@pytest.mark.parametrize(
    ("key", "pane", "words"),
    [("f6", "files", "/ find"), ("f7", "plan", "enter open"), ("f8", "log", "/ filter"), ("f9", "chat", "y copy")],
)
async def test_the_line_of_keys_says_where_they_go(key: str, pane: str, words: str, size: tuple[int, int]) -> None:
    async with running(size=size) as driver:
        driver.host.session.begin_turn("go")
        driver.host.session.say("done")
        await driver.settle()
        assert "enter send" in driver.text("#hints")
        await driver.press(key)
        assert f"keys go to {pane}" in driver.text("#hints")
        assert words in driver.text("#hints")
        assert f"{key} prompt" in driver.text("#hints")
        await driver.press(key)
        assert "enter send" in driver.text("#hints")
        await driver.press("x")
        assert driver.app.workbench.prompt.text == "x"


async def test_one_error_does_not_hide_another() -> None:
    async with running() as driver:
        driver.app.workbench.say("keys.toml: line 3", "error")
        driver.app.workbench.say("layout.json: line 1", "error")
        driver.app.workbench.say("layout.json: line 1", "error")
        await driver.settle()
        text = driver.text("#say")
        assert "keys.toml: line 3" in text
        assert text.count("layout.json: line 1") == 1
        await driver.type("go on")
        assert not driver.app.screen.query_one("#say").display


async def test_the_title_of_the_pane_in_focus_stands_out() -> None:
    async with running() as driver:
        title = driver.app.screen.query_one("#files-title")

        def is_bold() -> bool:
            segments = driver.app.screen._compositor.render_strips(driver.app.size)[title.region.y]
            return any(segment.text.startswith("FILES") and bool(segment.style and segment.style.bold) for segment in segments)

        assert not is_bold()
        await driver.press("f6")
        assert is_bold()
        await driver.press("f6")
        assert not is_bold()
