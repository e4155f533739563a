"""Try mode in full screen: unmerged changes are shown, merged by key and mouse, and asked about at the end."""

from __future__ import annotations

import pytest

from lmtui.core.events import FilesChanged, ModeChanged, OverlayChanged
from lmtui.core.workspace import EffectKind, EffectPart, FileChange, FileChangeKind
from tests.tui.driving import Driver, running

PARTS = (EffectPart("a.py", EffectKind.CHANGED, "@@ -1 +1 @@\n-a\n+b\n", 1, 1, 1),)


async def tried(driver: Driver) -> None:
    session = driver.host.session
    session.trial.fake_parts = PARTS
    change = FileChange("a.py", FileChangeKind.MODIFIED, 1, 1)
    session.emit(ModeChanged(mode="try"))
    session.emit(FilesChanged(call_id="c", files=("a.py",), changes=(change,), is_tried=True))
    session.emit(OverlayChanged(files=1))
    await driver.settle()


@pytest.mark.parametrize("size", [(160, 40), (80, 24), (60, 16)])
async def test_what_is_not_merged_is_in_the_foot_and_the_header(size: tuple[int, int]) -> None:
    async with running(size=size) as driver:
        assert "not merged" not in driver.text()
        await tried(driver)
        assert "try · 1 file not merged" in driver.text("#foot")
        assert "not merged" in driver.text("#header")
        active = driver.app.workbench.active
        assert active is not None
        assert not active.state.changes  # it is not real
        driver.host.session.emit(OverlayChanged(files=0))
        await driver.settle()
        assert "not merged" not in driver.text()


@pytest.mark.parametrize("way", ["key", "mouse", "slash"])
async def test_the_review_opens_and_keeps(way: str) -> None:
    async with running() as driver:
        await tried(driver)
        if way == "key":
            await driver.press("alt+j")
        elif way == "mouse":
            await driver.pilot.click("#foot", offset=(3, 0))
        else:
            await driver.type("/merge")
            await driver.press("enter")
        await driver.until_screen("EffectReviewScreen")
        await driver.press("y")
        await driver.until(lambda: driver.host.session.trial.done == [None])


async def test_without_anything_to_merge_it_is_said() -> None:
    async with running() as driver:
        await driver.press("alt+j")
        await driver.until(lambda: "nothing to merge" in driver.text())


async def test_the_end_is_asked_about_while_something_waits() -> None:
    async with running() as driver:
        await tried(driver)
        await driver.app.action_leave()
        await driver.until_screen("Confirm")
        assert "1 file not merged. The changes are saved as a patch" in driver.text()
        await driver.press("n")
        assert driver.app.is_running


async def test_a_session_is_closed_only_by_a_yes_while_something_waits() -> None:
    async with running() as driver:
        await tried(driver)
        closing = driver.host.session
        for key, is_closed in (("n", False), ("y", True)):
            await driver.type("/close")
            await driver.press("enter")
            await driver.until_screen("Confirm")
            await driver.press(key)
            await driver.until(lambda: driver.screen_name != "Confirm")
            await driver.settle()
            assert closing.is_closed is is_closed
