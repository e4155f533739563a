from __future__ import annotations

from dataclasses import replace

from lmtui.core import events
from lmtui.core.errors import UsageError
from lmtui.core.messages import Usage
from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost
from tests.tui.modals.test_switcher import host_with_sessions
from tests.tui.one_app import Cases

cases = Cases(host_with_sessions)
STEERING = "\x1b]0;evil\x07\x1b[2J\x9b31m"


def is_clean(driver: Driver) -> bool:
    return not any(char in driver.text() for char in "\x1b\x07\x9b")


@cases
async def what_a_log_says_of_folder_mode_and_cache_cannot_steer_the_terminal(driver: Driver) -> None:
    session = driver.host.session
    session.emit(events.SessionOpened(workspace=f"/a{STEERING}", version="1"))
    session.emit(events.ModeChanged(mode=f"auto{STEERING}"))
    usage = events.UsageUpdated(usage=Usage(900, 10), reread_tokens=800, miss=f"odd{STEERING}", turn_id="t")
    session.emit(usage)
    await driver.settle()
    assert "auto" in driver.text("#foot")
    assert is_clean(driver)
    await driver.type("/cache")
    await driver.press("end")
    assert "800 of 900 tokens re-read: odd" in driver.text()
    assert is_clean(driver)
    await driver.press("escape", to="Workbench")
    driver.host.summaries = [replace(each, title=f"docs{STEERING}") for each in driver.host.summaries]
    await driver.press("f2", "end", "e", to="AskText")
    assert "docs" in driver.text()
    assert is_clean(driver)


async def test_what_a_server_says_cannot_steer_the_terminal_on_the_first_screen() -> None:
    host = FakeHost(setup_note="no model yet")
    host.servers.refusal = UsageError(f"it said {STEERING}")
    async with running(host, is_ready=False) as driver:
        await driver.until_screen("FirstRun")
        await driver.press("enter")
        await driver.until(lambda: "it said" in driver.text())
        assert is_clean(driver)
