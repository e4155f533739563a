from __future__ import annotations

import pytest

from tests.tui.driving import SMALL, WIDE, running


@pytest.mark.parametrize("size", [WIDE, SMALL])
@pytest.mark.parametrize(
    ("key", "words"),
    [("f6", "/ find"), ("f7", "Enter open"), ("f8", "/ filter"), ("f9", "y copy")],
)
async def test_the_line_of_keys_says_where_they_go(key: str, words: str, size: tuple[int, int]) -> None:
    async with running(size=size) as driver:
        driver.host.session.begin_turn("go")
        driver.host.session.say("done")
        await driver.settle()
        assert "Enter send" in driver.text("#hints")
        await driver.press(key)
        assert words in driver.text("#hints")
        assert f"{key.capitalize()} prompt" in driver.text("#hints")
        await driver.press(key)
        assert "Enter send" in driver.text("#hints")
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
        driver.host.session.begin_turn("go")
        await driver.settle()
        title = driver.app.screen.query_one("#files-title")

        def color() -> object:
            segments = driver.app.screen._compositor.render_strips(driver.app.size)[title.region.y]
            return next(segment.style.color for segment in segments if segment.text.startswith("Files") and segment.style)

        before = color()
        await driver.press("f6")
        assert color() != before
        await driver.press("f6")
        assert color() == before
