"""A file or the changes at the right of the conversation, which goes on."""

from __future__ import annotations

from lmtui.core.events import TextDelta
from tests.tui.driving import WIDE, Driver, running
from tests.tui.screens.test_viewer import host, viewing


def seen(driver: Driver) -> str:
    """Return what the whole terminal shows, the screens below the top one too."""
    app = driver.app
    lines = app.screen._compositor.render_strips(app.size)
    below = app.workbench._compositor.render_strips(app.size)
    left = app.size.width - getattr(app.screen, "columns", app.size.width)
    rows = zip(below, lines, strict=True)
    return "\n".join(under.crop(0, left).text + over.crop(left, app.size.width).text for under, over in rows)


async def test_a_file_is_read_beside_a_conversation_that_goes_on() -> None:
    async with running(host(), size=WIDE) as driver:
        await driver.type("read the long file")
        await viewing(driver)
        chat = driver.app.workbench.panes.chat_pane
        assert (chat.outer_size.width, driver.app.screen.query_one("#viewer-file").region.x) == (60, 86)
        driver.host.session.emit(TextDelta(text="It counts its lines."))
        await driver.until(lambda: "It counts its lines." in seen(driver))
        assert "line 3" in seen(driver)
        assert "read the long file" in seen(driver)
        await driver.press("alt+z")
        assert driver.app.screen.query_one("#viewer-file").region.x == 0
        await driver.press("alt+z")
        assert driver.app.screen.query_one("#viewer-file").region.x == 86
        await driver.press("escape")
        await driver.until(lambda: chat.outer_size.width > 60)


async def test_changes_are_beside_it_too_and_a_file_from_there_keeps_the_place() -> None:
    async with running(host(), size=(120, 30)) as driver:
        await driver.type("hello")
        await driver.press("f10")
        await driver.until_screen("ChangesScreen")
        assert driver.app.workbench.panes.chat_pane.outer_size.width == 60
        assert driver.app.screen.query_one("#changes-diff").region.x == 60
        await driver.pilot.resize_terminal(100, 30)
        await driver.settle()
        assert driver.app.screen.query_one("#changes-head").region.x == 0
        await driver.pilot.resize_terminal(160, 40)
        await driver.settle()
        assert driver.app.screen.query_one("#changes-head").region.x == 86


async def test_without_room_for_both_a_file_fills_the_screen() -> None:
    async with running(host(), size=(100, 30)) as driver:
        await viewing(driver)
        assert driver.app.screen.query_one("#viewer-file").region.x == 0
        assert "line 3" in driver.text("#viewer-file")
