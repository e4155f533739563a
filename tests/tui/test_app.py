from __future__ import annotations

import asyncio
import threading
from functools import partial

from textual.events import AppBlur

from lmtui.core.errors import ConfigError
from lmtui.tui.app import LmtuiApp
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.options import StartOptions
from lmtui.tui.screens.workbench import Starting
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fakes import FakeHost, FakeSession, play_work
from tests.tui.one_app import Cases
from tests.waiting import PATIENCE_S

cases = Cases()


@cases
async def a_task_reaches_the_session_and_escape_stops_it_and_it_goes_on(driver: Driver) -> None:
    session = driver.host.session
    await driver.type("fix the bug")
    assert session.submitted == ["fix the bug"]
    assert driver.app.workbench.prompt.text == ""
    session.say("It is fixed.")
    await driver.until(lambda: "It is fixed." in driver.text(".transcript"))
    assert "fix the bug" in driver.text(".transcript")
    await driver.press("escape")
    assert (session.is_running, "Esc again to stop" in driver.text("#say")) == (True, True)
    await driver.press("escape")
    assert not session.is_running
    await driver.until(lambda: "! Stopped" in driver.text(".transcript"))
    assert not driver.text("#activity").strip()
    await driver.type("again")
    driver.app.workbench.prompt.replace_text("not like that")
    await driver.press("ctrl+s")
    assert (session.submitted, session.steered) == (["fix the bug", "again"], ["not like that"])


async def test_text_typed_before_the_host_is_there_is_kept_and_sent() -> None:
    gate = threading.Event()
    host = FakeHost()

    def open_host() -> FakeHost:
        gate.wait(PATIENCE_S)
        return host

    app = LmtuiApp(open_host, StartOptions(workspace="/w", task="first"))
    async with app.run_test(size=SMALL) as pilot:
        driver = Driver(app, pilot, host)
        await driver.until(lambda: not isinstance(app.workbench.state, Starting))
        await driver.type("second")
        assert "after this turn: first" in " ".join(driver.text().split())
        gate.set()
        await driver.until(lambda: bool(host.opened) and len(host.session.submitted) == 2)
        assert host.session.submitted == ["first", "second"]


@cases.full()
async def a_session_that_waits_in_the_background_is_marked_and_one_key_goes_there(driver: Driver) -> None:
    first = driver.host.session
    await driver.type("one")
    await driver.press("f4")
    await driver.until(lambda: len(driver.host.opened) == 2)
    await driver.type("two")
    groups = {worker.group for worker in driver.app.workers if worker.name == "session"}
    assert groups == set(driver.host.opened)
    first.ask("a1", "make")
    await driver.settle()
    assert driver.app.screen is driver.app.workbench
    assert "one ▲" in driver.text("#header")
    await driver.press("f3", to="Approval")
    assert driver.view.session is first


async def test_a_session_that_breaks_is_said_and_the_app_goes_on() -> None:
    class BrokenSession(FakeSession):
        async def wait_idle(self) -> None:
            raise RuntimeError("the engine is broken")

    async with running(FakeHost(kind=BrokenSession)) as driver:
        await driver.type("one")
        await driver.until(lambda: "failed" in driver.text("#say"))
        assert "the engine is broken" in driver.text("#say")


async def test_quitting_asks_once_while_an_agent_works_and_a_second_time_leaves() -> None:
    async with running() as driver:
        await driver.type("work")
        await driver.app.push_screen(Confirm("Another question?", ""))
        await driver.press("ctrl+q")
        assert "Quit while an agent is working?" in driver.text()
        await driver.pilot.press("ctrl+q")
        await driver.until(lambda: driver.host.is_closed)
    assert driver.app.return_code == 0


async def test_an_unusable_setting_ends_the_app_with_its_text() -> None:
    def open_host() -> FakeHost:
        raise ConfigError("bad mode", "Use normal.")

    app = LmtuiApp(open_host)
    async with app.run_test():
        async with asyncio.timeout(PATIENCE_S):
            while app.return_code is None:
                await asyncio.sleep(0.01)
    assert app.return_code == 64


async def test_the_history_survives_a_restart_and_is_walked_by_the_arrow_keys() -> None:
    async with running() as driver:
        await driver.type("first")
        driver.host.session.end_turn()
        await driver.type("second")
    async with running() as driver:
        walked = []
        for keys in (["up"], ["up"], ["down", "down"]):
            await driver.press(*keys)
            walked.append(driver.app.workbench.prompt.text)
        assert walked == ["second", "first", ""]


async def test_a_folder_that_cannot_be_listed_is_said() -> None:
    host = FakeHost()
    host.files.problem = "the workspace is gone"
    async with running(host) as driver:
        await driver.until(lambda: "the workspace is gone" in driver.text("#say"))


@cases.at(SMALL)
async def every_size_shows_the_prompt_and_what_goes_on(driver: Driver) -> None:
    play_work(driver.host.session)
    await driver.settle()
    for width, height in [(20, 5), (200, 60), (1, 1), (79, 15), SMALL]:
        await driver.pilot.resize_terminal(width, height)
        assert height == 1 or driver.app.workbench.prompt.region.height >= 1
        if height > 1:
            assert "Writing"[: width - 4] in driver.text("#hints" if height == 15 else "#activity")
    assert "Two cases end" in driver.text("#chat-pane")


@cases.full()
async def keys_struck_while_a_question_opens_and_closes_break_nothing(driver: Driver) -> None:
    await driver.type("go")
    for number in range(3):
        driver.host.session.ask(f"a{number}", "make")
        driver.app.workbench.ready.approvals.sync()
        driver.app.simulate_key("y")
        await driver.until_screen("Approval")
        driver.host.clock.forward(1)
        driver.app.simulate_key("y")
        driver.app.simulate_key("y")
        await driver.pilot.resize_terminal(100 + number, 30)
        await driver.until(partial(driver.host.session.answers.__contains__, f"a{number}"))
        await driver.until_screen("Workbench")
    assert len(driver.host.session.answers) == 3


@cases
async def keys_struck_while_a_screen_opens_break_nothing(driver: Driver) -> None:
    play_work(driver.host.session)
    for key in ("f1", "f2", "ctrl+p"):
        for struck in (key, "down", "x", "escape", "escape"):
            driver.app.simulate_key(struck)
        await driver.settle()
    assert driver.app.return_code is None


@cases
async def keys_go_to_the_prompt_where_nothing_has_the_focus(driver: Driver) -> None:
    driver.app.post_message(AppBlur())
    await driver.settle()
    assert driver.app.focused is None
    await driver.press("h", "e", "y")
    assert driver.app.workbench.prompt.text == "hey"
    driver.app.screen.set_focus(None)
    await driver.press("e", "G", "k")
    assert driver.app.workbench.prompt.text == "heyeGk"
    driver.app.screen.set_focus(None)
    assert not await driver.app.run_action("focused.jump('error', 1)", driver.app.screen)
