from __future__ import annotations

from lmtui.core.errors import SessionFileError
from lmtui.tui.options import StartOptions
from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost, FakeSession
from tests.tui.one_app import Cases

cases = Cases()


class BusyHost(FakeHost):
    """Its old sessions are open elsewhere; a new one fails as long as `is_closed_off`."""

    is_closed_off = False

    async def open_session(self, session_id: str) -> FakeSession:
        raise SessionFileError(f"session {session_id} is open in another lmtui", "Close it there.")

    async def new_session(self) -> FakeSession:
        if self.is_closed_off:
            raise SessionFileError("the disk is full")
        return await super().new_session()


async def test_a_session_open_elsewhere_gives_way_to_a_new_one_that_gets_what_was_typed() -> None:
    host = BusyHost()
    options = StartOptions(workspace="/w", session_id="20260314_000000_aaaaaa", task="go on")
    async with running(host, options=options) as driver:
        await driver.until(lambda: host.session.submitted == ["go on"])
        assert "Close it there. This is a new session." in " ".join(driver.text("#say").replace("▌", "").split())


async def test_what_was_typed_without_a_session_is_sent_to_the_one_that_f4_makes() -> None:
    host = BusyHost()
    host.is_closed_off = True
    async with running(host, is_ready=False) as driver:
        await driver.until(lambda: "the disk is full" in driver.text("#say"))
        host.is_closed_off = False
        await driver.type("not lost")
        await driver.press("f4")
        await driver.until(lambda: bool(host.opened) and host.session.submitted == ["not lost"])
        assert not driver.app.workbench.query_one("#say").display


@cases
async def an_error_stays_while_other_notices_come_and_go(driver: Driver) -> None:
    workbench = driver.app.workbench
    workbench.say("keys.toml: line 3", "error")
    workbench.say("disk full", "error")
    workbench.say("disk full", "error")
    await driver.settle()
    assert "keys.toml: line 3" in driver.text("#say")
    assert driver.text("#say").count("disk full") == 1
    workbench.say_line.say_s = 0.05
    workbench.say("copied")
    workbench.say("copied again")
    await driver.until(lambda: "copied" not in driver.text())
    await driver.settle()
    await driver.type("go on")
    assert not driver.app.screen.query_one("#say").display


@cases
async def texts_taken_back_stand_before_what_is_typed(driver: Driver) -> None:
    for text in ("one", "two", "three"):
        await driver.type(text)
    driver.app.workbench.prompt.replace_text("draft")
    await driver.press("alt+up")
    await driver.press("alt+up")
    assert driver.app.workbench.prompt.text == "two\nthree\ndraft"


@cases
async def control_c_interrupts_and_says_how_to_leave_when_idle(driver: Driver) -> None:
    driver.app.workbench.say_line.say_s = 1000.0
    await driver.type("work")
    await driver.press("ctrl+c")
    assert not driver.host.session.is_running
    await driver.press("ctrl+c")
    assert "Ctrl+Q quits" in driver.text("#say")
