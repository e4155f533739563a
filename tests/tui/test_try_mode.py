"""Try mode in full screen: unmerged changes are shown, merged by key and mouse, and asked about at the end."""

from __future__ import annotations

from lmtui.core.events import FilesChanged, ModeChanged, OverlayChanged
from lmtui.core.workspace import EffectKind, EffectPart, FileChange, FileChangeKind
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()

PARTS = (EffectPart("a.py", EffectKind.CHANGED, "@@ -1 +1 @@\n-a\n+b\n", 1, 1, 1),)


async def tried(driver: Driver) -> None:
    session = driver.host.session
    session.trial.fake_parts = PARTS
    change = FileChange("a.py", FileChangeKind.MODIFIED, 1, 1)
    session.emit(ModeChanged(mode="try"))
    session.emit(FilesChanged(call_id="c", files=("a.py",), changes=(change,), is_tried=True))
    session.emit(OverlayChanged(files=1))
    await driver.settle()


@cases.each("size", [(160, 40), (60, 16)])
async def what_is_not_merged_is_in_the_foot_and_the_header(driver: Driver, size: tuple[int, int]) -> None:
    assert "not merged" not in driver.text()
    await tried(driver)
    assert "try · 1 file not merged" in driver.text("#foot")
    assert "not merged" in driver.text("#header")
    assert not driver.view.state.changes  # it is not real
    driver.host.session.emit(OverlayChanged(files=0))
    await driver.settle()
    assert "not merged" not in driver.text()


@cases.each("way", ["key", "mouse"])
async def the_review_opens_and_keeps(driver: Driver, way: str) -> None:
    await tried(driver)
    if way == "key":
        await driver.type("/merge")
    else:
        await driver.pilot.click("#foot", offset=(3, 0))
    await driver.until_screen("EffectReviewScreen")
    await driver.press("y")
    await driver.until(lambda: driver.host.session.trial.done == [None])


@cases
async def the_end_and_a_close_are_asked_about_while_something_waits(driver: Driver) -> None:
    await driver.type("/merge")
    await driver.until(lambda: "nothing to merge" in driver.text())
    await tried(driver)
    await driver.app.action_leave()
    await driver.until_screen("Confirm")
    assert "1 file not merged. The changes are saved as a patch" in driver.text()
    await driver.press("n")
    assert driver.app.is_running
    closing = driver.host.session
    for key, is_closed in (("n", False), ("y", True)):
        await driver.type("/close", "Confirm")
        await driver.press(key)
        await driver.until(lambda: driver.screen_name != "Confirm")
        await driver.settle()
        assert closing.is_closed is is_closed
