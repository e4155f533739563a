from __future__ import annotations

from lmtui.core.errors import SessionFileError
from lmtui.core.events import ModelChanged
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
        assert "this is a new one" in " ".join(driver.text("#say").replace("▌", "").split())


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
async def every_notice_goes_after_its_seconds(driver: Driver) -> None:
    driver.app.workbench.say_line.say_s = 0.05
    for text in ("one", "two"):
        driver.app.workbench.say(text)
        assert driver.app.workbench.query_one("#say").display
        await driver.until(lambda: not driver.app.workbench.query_one("#say").display)


@cases
async def at_most_two_notices_of_one_line_each_float_over_the_chat(driver: Driver) -> None:
    workbench = driver.app.workbench
    workbench.say_line.say_s = 1000.0
    for text in ("one", "two", f"three {'and more ' * 40}"):
        workbench.say(text)
    await driver.settle()
    shown = driver.text("#say").splitlines()
    assert [line.split()[1] for line in shown] == ["two", "three"]
    assert "…" in shown[1]
    workbench.say("two")
    await driver.settle()
    assert [line.split()[1] for line in driver.text("#say").splitlines()] == ["three", "two"]


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


@cases
async def the_header_names_the_servers_default_and_no_model_line_comes_twice(driver: Driver) -> None:
    await driver.type("one")
    for _ in range(3):
        driver.host.session.emit(ModelChanged(model="", url="http://127.0.0.1:1/v1"))
    await driver.settle()
    assert "server's default" in driver.text("#foot")
    driver.host.session.emit(ModelChanged(model="", default_model="qwen3", url="http://127.0.0.1:1/v1"))
    await driver.until(lambda: "qwen3 (default)" in driver.text("#foot"))
    assert driver.text("#chat-pane").count("model: the server’s own") == 1
