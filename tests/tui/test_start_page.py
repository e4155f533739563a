from __future__ import annotations

import threading
from collections.abc import Iterator

from lmtui.core.events import Level, Notice
from lmtui.core.sessions import SessionSummary
from lmtui.tui.widgets.start_page import box_bottom
from tests.tui.driving import WIDE, Driver, running
from tests.tui.fake_archive import FakeArchive
from tests.tui.fakes import FakeHost
from tests.tui.one_app import Cases
from tests.tui.scenes import SUMMARIES


def host_with_sessions() -> FakeHost:
    host = FakeHost()
    host.summaries = SUMMARIES
    return host


async def until_suggested(driver: Driver) -> None:
    await driver.until(lambda: "Explain this project" in driver.text())
    await driver.settle()


cases = Cases()
host_with_sessions_cases = Cases(host_with_sessions)


@host_with_sessions_cases.each("size", [WIDE, (60, 18)])
async def a_new_session_shows_the_prompt_in_the_middle_and_what_to_try_below(driver: Driver, size: tuple[int, int]) -> None:
    await until_suggested(driver)
    screen = driver.app.screen
    box = screen.query_one("#prompt-box").region
    assert (box.bottom, box.width) == (box_bottom(size[1]), min(84, size[0] - 2))
    text = driver.text("#start")
    assert all(words in text for words in ("docs  · 2 min ago", "127.0.0.1:11434", "set up before the first command"))
    assert "What should we work on?" in driver.text("#prompt")
    assert not any(screen.query_one(pane).display for pane in ("#files-pane", "#side-pane"))
    await driver.type("go")
    assert not screen.query_one("#start").display
    assert screen.query_one("#prompt-box").region.bottom >= size[1] - 1


class SlowArchive(FakeArchive):
    """Finds nothing, and that only when it may."""

    may_read = threading.Event()

    def find(self, search: str = "", limit: int = 50) -> Iterator[SessionSummary]:
        assert self.may_read.wait(10), (search, limit)
        return iter(())


async def test_before_the_sessions_are_read_the_page_says_so() -> None:
    host = FakeHost()
    host.archive = archive = SlowArchive(host)
    async with running(host) as driver:
        await driver.until(lambda: "reading…" in driver.text("#start"))
        archive.may_read.set()
        await driver.until(lambda: "Resume" not in driver.text("#start"))


@cases
async def down_marks_a_suggestion_and_enter_fills_it_in(driver: Driver) -> None:
    await until_suggested(driver)
    prompt = driver.app.workbench.prompt
    await driver.press("down", "down", "down", "down", "up")
    assert "▌" in next(line for line in driver.text("#start").splitlines() if prompt.suggestions[1] in line)
    await driver.press("enter")
    assert prompt.text == prompt.suggestions[1]
    assert not driver.host.session.submitted
    assert not any("▌" in row for row in driver.text("#start").splitlines() if "Try" in row or "Check the" in row)
    await driver.press("enter")
    assert driver.host.session.submitted == ["Find a bug and fix it"]


@cases
async def a_warning_before_the_first_message_is_on_the_page(driver: Driver) -> None:
    driver.host.session.emit(Notice(level=Level.WARNING, text="hooks.toml: line 3 is not valid"))
    await driver.until(lambda: "hooks.toml: line 3" in driver.text("#start"))


@host_with_sessions_cases.each("is_click", [False, True])
async def the_last_session_is_resumed_below_the_suggestions(driver: Driver, is_click: bool) -> None:
    await until_suggested(driver)
    rows = driver.text("#start").splitlines()
    y = next(at for at, row in enumerate(rows) if "Resume" in row)
    if is_click:
        await driver.pilot.click("#start", offset=(rows[y].index("Resume"), y))
    else:
        await driver.press("down", "down", "down", "down", "down")
        assert rows[y].replace("  Resume", "▌ Resume") == driver.text("#start").splitlines()[y]
        await driver.press("enter")
    await driver.until(lambda: "docs" in driver.text("#header"))
    assert driver.app.workbench.prompt.text == ""
