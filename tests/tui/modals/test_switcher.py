from __future__ import annotations

import re
from datetime import timedelta

from lmtui.core.errors import SessionFileError
from lmtui.core.events import SessionRenamed
from lmtui.core.sessions import SessionSummary
from lmtui.tui.modals.switcher import STATES
from tests.structure import ROOT
from tests.tui.driving import Driver
from tests.tui.fakes import START, FakeHost
from tests.tui.one_app import Cases


def host_with_sessions() -> FakeHost:
    host = FakeHost()
    host.summaries = [
        summary("20260314_110000_aaaaaa", "docs", "waits", 'shell "npm run build"', 12, 120),
        summary("20260314_120000_bbbbbb", "rename pass", "done", "212 of 212 files", 212, 3600),
        summary("20260314_130000_cccccc", "", "new", "", 0, 90000),
    ]
    return host


def summary(session_id: str, title: str, state: str, last_line: str, changes: int, age_s: float) -> SessionSummary:
    then = START - timedelta(seconds=age_s)
    return SessionSummary(session_id, title, state, "qwen2.5-coder:7b", then, then, changes, last_line)


async def open_switcher(driver: Driver) -> None:
    await driver.press("f2", to="Switcher")
    await driver.until(lambda: "rename pass" in driver.text())


cases = Cases(host_with_sessions)


@cases
async def a_session_is_opened_by_enter(driver: Driver) -> None:
    await open_switcher(driver)
    await driver.press("down", "enter")
    await driver.until(lambda: "20260314_120000_bbbbbb" in driver.host.opened)
    await driver.settle()
    assert driver.app.workbench.active is not None
    assert driver.app.workbench.active.state.title == "rename pass"


@cases
async def search_looks_in_everything_through_the_host(driver: Driver) -> None:
    await open_switcher(driver)
    await driver.press("slash", *"npm")
    await driver.until(lambda: "rename pass" not in driver.text())
    assert "docs" in driver.text()
    assert driver.host.searched[-1] == "npm"
    await driver.press("escape")
    await driver.until(lambda: "rename pass" in driver.text())
    await driver.press("escape")
    assert driver.app.screen is driver.app.workbench


@cases
async def deleting_asks_first_and_a_session_that_another_lmtui_holds_is_told_and_stays(driver: Driver) -> None:
    await open_switcher(driver)
    await driver.press("d", to="Confirm")
    await driver.press("n")
    assert driver.host.deleted == []
    await driver.press("d", to="Confirm")
    await driver.press("y")
    await driver.until(lambda: driver.host.deleted == ["20260314_110000_aaaaaa"])
    await driver.until(lambda: "docs" not in driver.text("#switcher-box"))
    driver.host.archive.failure = SessionFileError("the session is open in another lmtui", "Close it there.")
    left = list(driver.host.summaries)
    await driver.press("d", to="Confirm")
    await driver.press("y", to="Switcher")
    assert (driver.app.is_running, driver.host.summaries) == (True, left)


@cases
async def deleting_the_session_on_screen_gives_way_to_a_new_one(driver: Driver) -> None:
    first = driver.host.session
    await driver.app.workbench.ready.session_controller.delete(first.id)
    await driver.settle()
    assert driver.host.deleted == [first.id]
    assert driver.app.workbench.active is not None
    assert driver.app.workbench.active.session.id != first.id
    assert list(driver.app.sessions.views) == [driver.app.workbench.active.session.id]


@cases.full()
async def a_session_on_disk_is_renamed(driver: Driver) -> None:
    await open_switcher(driver)
    await driver.press("e", to="AskText")
    await driver.press("end", "x", "enter", to="Switcher")
    renamed = driver.host.opened["20260314_110000_aaaaaa"]
    titles = [each.event.title for each in renamed.history() if isinstance(each.event, SessionRenamed)]
    assert titles[-1] == "docsx"
    opened = len(driver.host.opened)
    await driver.press("a")
    await driver.until(lambda: len(driver.host.opened) == opened + 1)


@cases
async def hostile_titles_stay_on_one_line(driver: Driver) -> None:
    driver.host.summaries = [summary("20260314_110000_aaaaaa", "a\nb\x1b[2J\u202e", "done", "x\ty", 1, 0)]
    await driver.press("f2", to="Switcher")
    await driver.until_shown("<U+202E>")
    assert "\x1b" not in driver.text()


def test_the_page_about_sessions_explains_each_sign() -> None:
    row = next(line for line in (ROOT / "docs" / "sessions.md").read_text().splitlines() if line.startswith("| sign |"))
    assert {sign for sign, _ in STATES.values()} == set(re.findall(r"`(.)`", row))
