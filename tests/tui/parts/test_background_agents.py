from __future__ import annotations

from dataclasses import replace

from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost, play_work
from tests.tui.one_app import Cases
from tests.tui.scenes_lists import AGENTS, use_agents

cases = Cases()


async def listed(driver: Driver) -> None:
    await driver.type("/agents", "AgentList")


@cases
async def enter_leaves_for_a_session_of_another_folder_and_says_which(driver: Driver) -> None:
    use_agents(driver)
    await listed(driver)
    await driver.until(lambda: "1 needs you" in driver.text())
    assert "\x1b" not in driver.text()
    await driver.press("home", "enter")
    await driver.until(lambda: driver.app.is_leaving)
    assert driver.app.next_folder == str(AGENTS[1].folder)
    assert driver.app.next_session == AGENTS[1].session.id


async def test_it_asks_first_while_an_agent_works_here_but_not_where_a_host_has_it() -> None:
    for is_attached in (False, True):
        async with running(FakeHost()) as driver:
            play_work(driver.host.session)
            use_agents(driver)
            driver.app.options = replace(driver.app.options, is_attached=is_attached)
            await listed(driver)
            await driver.press("home", "enter")
            if is_attached:
                await driver.until(lambda: driver.app.is_leaving)
            else:
                await driver.until_screen("Confirm")
                assert "Switch to website?" in driver.text()


@cases.full()
async def a_session_of_this_folder_is_opened_in_the_attached_app(driver: Driver) -> None:
    here = replace(AGENTS[1], folder=driver.host.workspace, session=replace(AGENTS[1].session, id=driver.host.session.id))
    use_agents(driver, [here])
    driver.app.options = replace(driver.app.options, is_attached=True)
    await listed(driver)
    await driver.until(lambda: "Build the contact form" in driver.text())
    await driver.press("slash", *"zzz")
    await driver.until(lambda: 'No session matches "zzz"' in driver.text())
    await driver.press("escape", "home", "enter", to="Workbench")
    assert not driver.app.is_leaving


@cases
async def leaving_an_attached_app_asks_nothing_while_an_agent_works(driver: Driver) -> None:
    play_work(driver.host.session)
    driver.app.options = replace(driver.app.options, is_attached=True)
    await driver.press("ctrl+q")
    await driver.until(lambda: driver.app.is_leaving)
