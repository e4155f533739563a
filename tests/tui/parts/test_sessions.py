from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from textual.worker import WorkerCancelled

from lmtui.core.agent_events import AgentStarted
from lmtui.core.errors import SessionFileError
from lmtui.core.events import MessageAdded
from lmtui.core.messages import Role
from lmtui.tui.options import StartOptions
from tests.sets import depth
from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost, FakeSession, play_work
from tests.tui.modals.test_switcher import host_with_sessions
from tests.tui.one_app import Cases
from tests.tui.scenes_sessions import send_agents

DOCS, RENAME, EMPTY = "20260314_110000_aaaaaa", "20260314_120000_bbbbbb", "20260314_130000_cccccc"


def active_id(driver: Driver) -> str:
    return driver.view.session.id


async def open_both(driver: Driver) -> None:
    for session_id in (DOCS, RENAME):
        await driver.app.workbench.ready.session_controller.open(session_id)
        await driver.settle()


async def kept(driver: Driver) -> None:
    await driver.until(lambda: not [each for each in driver.app.workers if each.group == "sessions" and not each.is_finished])


async def leave_both() -> None:
    async with running(host_with_sessions()) as driver:
        await open_both(driver)
        await kept(driver)


cases = Cases(host_with_sessions)
plain_cases = Cases()


@cases
async def alt_right_and_left_go_round_the_open_sessions_and_closing_one_shows_another(driver: Driver) -> None:
    first = active_id(driver)
    await driver.press("alt+right")
    assert active_id(driver) == first
    await open_both(driver)
    seen = []
    for _ in range(3):
        await driver.press("alt+right")
        seen.append(active_id(driver))
    assert seen == [first, DOCS, RENAME]
    await driver.press("alt+left")
    assert active_id(driver) == DOCS
    await driver.press("alt+right")
    for _ in range(2):
        _ = driver.app.workbench.ready.session_controller.handlers()["session.close"]("")
    await kept(driver)
    assert driver.host.opened[RENAME].is_closed
    assert (active_id(driver), driver.app.sessions.order) == (DOCS, [DOCS, first])


async def test_what_was_open_is_open_again_and_read_when_it_is_shown() -> None:
    async with running(host_with_sessions()) as driver:
        await open_both(driver)
        await driver.press("alt+left")
        await kept(driver)
        assert active_id(driver) == DOCS
    async with running(host_with_sessions()) as driver:
        assert active_id(driver) == DOCS
        assert list(driver.host.opened) == [DOCS]
        assert list(driver.app.sessions.parked) == [RENAME]
        await driver.press("alt+right")
        await driver.until(lambda: RENAME in driver.host.opened)
        await driver.settle()
        assert active_id(driver) == RENAME
        assert not driver.app.sessions.parked


@pytest.mark.parametrize("options", [StartOptions(task="do it"), StartOptions(session_id=EMPTY)])
async def test_a_task_begins_afresh_and_a_session_that_is_named_is_opened(options: StartOptions) -> None:
    await leave_both()
    async with running(host_with_sessions(), options=options) as driver:
        assert active_id(driver) not in (DOCS, RENAME)
        assert set(driver.app.sessions.parked) == {DOCS, RENAME}


async def test_a_session_that_was_left_an_hour_ago_is_offered_and_enter_resumes_it() -> None:
    await leave_both()
    host = host_with_sessions()
    host.summaries = [replace(each, updated=each.updated - timedelta(hours=2)) for each in host.summaries]
    async with running(host) as driver:
        await driver.until(lambda: "▌ Resume" in driver.text())
        await driver.press("enter")
        await driver.until(lambda: active_id(driver) in (DOCS, RENAME))


async def test_sessions_that_are_gone_are_said_and_those_held_elsewhere_are_passed_over() -> None:
    await leave_both()
    host = FakeHost()
    host.summaries = [replace(host_with_sessions().summaries[1], is_elsewhere=True)]
    async with running(host) as driver:
        assert active_id(driver) not in (DOCS, RENAME)
        assert "no longer exist" in driver.text()


@cases.full()
async def a_fork_is_asked_for_its_place_and_opened(driver: Driver) -> None:
    play_work(driver.host.session)
    original = active_id(driver)
    seqs = [each.seq for each in driver.host.session.history() if each.event.kind == "message_added"]
    await driver.type("/fork", "Picker")
    await driver.press("down", "down", "enter")
    await driver.until(lambda: bool(driver.host.archive.forked))
    assert driver.host.archive.forked == [(original, seqs[0])]
    await driver.until(lambda: active_id(driver) != original)
    await driver.until(lambda: "all files are unchanged" in driver.text())


@cases
async def the_switcher_closes(driver: Driver) -> None:
    await open_both(driver)
    await driver.press("f2", to="Switcher")
    await driver.until(lambda: "docs" in driver.text())
    await driver.press("home", "x")
    await driver.until(lambda: len(driver.app.sessions.views) == 2)
    assert "docs" in driver.text()


async def test_an_agents_conversation_is_beside_that_of_the_root_which_goes_on() -> None:
    for size in depth([(160, 40)], [(160, 40), (100, 30)]):
        async with running(host_with_sessions(), size=size) as driver:
            send_agents(driver.host.session)
            await driver.until_screen("Approval")
            await driver.press("l", "f7", "home", "down", "enter", to="AgentScreen")
            assert "reviewer" in driver.text("#side-tabs")
            assert "review the change" in driver.text("#output-title")
            assert "Two things to change" in driver.text()
            assert driver.app.screen.query_one("Transcript").region.x == (86 if size[0] == 160 else 0)
            view = driver.view
            panels = len(view.panels)
            driver.host.session.emit(MessageAdded(agent="reviewer", role=Role.ASSISTANT, text="A third one."))
            await driver.until(lambda: "A third one." in driver.text())
            await driver.press("escape", to="Workbench")
            assert len(view.panels) == panels - 1
            assert "Two things to change" not in driver.text("#chat-pane")
            await driver.press("f8", "end", "c", to="AgentScreen")
            assert "fuzzer" in driver.text("#side-tabs")
            name = f"{driver.host.session.id}/fuzzer"
            worker = driver.app.run_worker(asyncio.sleep(60), name=name, exit_on_error=False)
            await driver.press("x")
            with pytest.raises(WorkerCancelled):
                await worker.wait()


@plain_cases
async def what_an_agent_does_when_its_conversation_is_opened_stands_there_once(driver: Driver) -> None:
    part = driver.app.workbench.ready.agents
    driver.host.session.emit(AgentStarted(agent="tester", title="write tests"))
    driver.host.session.emit(MessageAdded(agent="tester", role=Role.USER, text="Please write tests."))
    part.open("tester")
    await driver.until_screen("AgentScreen")
    assert driver.text().count("Please write tests.") == 1


async def test_no_pane_of_a_closed_session_is_left_where_no_other_can_be_opened() -> None:
    class Failing(FakeHost):
        async def new_session(self) -> FakeSession:
            if self.opened:
                raise SessionFileError("the disk is full")
            return await super().new_session()

    async with running(Failing()) as driver:
        await driver.type("/close")
        await driver.until(lambda: "the disk is full" in driver.text("#say"))
        assert driver.app.workbench.panes.current is None
        await driver.press("f9", "pageup", "f8")
        assert driver.app.focused is driver.app.workbench.prompt


@cases
async def a_session_that_is_chosen_as_the_user_leaves_is_not_opened(driver: Driver) -> None:
    controller = driver.app.workbench.ready.session_controller
    await driver.app.workbench.sessions.close()
    assert await controller.open(RENAME) is None
