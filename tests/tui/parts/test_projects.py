from __future__ import annotations

from dataclasses import replace

from tests.tui.driving import Driver, running
from tests.tui.fakes import FakeHost, play_work
from tests.tui.one_app import Cases
from tests.tui.scenes_lists import AGENTS, OTHER, use_agents, use_projects


def host_with_projects() -> FakeHost:
    host = FakeHost()
    use_projects(host)
    return host


async def listed(driver: Driver, typed: str = "/projects") -> None:
    await driver.type(typed, "Switcher")
    await driver.until_shown("Other folders")


cases = Cases(host_with_projects)
agent_cases = Cases()


@cases
async def other_folders_say_what_needs_the_user_and_a_gone_one_is_not_gone_to(driver: Driver) -> None:
    await listed(driver)
    await driver.until_shown("needs you: 1 failed task, 2 open questions")
    await driver.press("end", "enter")
    await driver.until_shown("the folder is gone")
    assert ("[red]" in driver.text(), "\x1b" in driver.text(), driver.app.next_folder) == (True, False, "")
    await driver.press("slash", *"zzz")
    await driver.until_shown("No sessions match")


@cases.full()
async def it_asks_first_while_an_agent_works_and_no_means_stay(driver: Driver) -> None:
    play_work(driver.host.session)
    for answer in ("n", "y"):
        await listed(driver)
        await driver.press("end", "up", "enter", to="Confirm")
        assert "Switch to lexer?" in driver.text()
        await driver.press(answer)
        if answer == "n":
            await driver.until_screen("Workbench")
            assert driver.app.next_folder == ""
    await driver.until(lambda: driver.app.is_leaving)
    assert driver.app.next_folder == OTHER.path


@agent_cases
async def enter_leaves_for_a_session_of_another_folder_and_says_which(driver: Driver) -> None:
    use_agents(driver)
    await listed(driver, "/agents")
    await driver.until_shown("1 needs you")
    assert "\x1b" not in driver.text()
    await driver.press("home", "enter")
    await driver.until(lambda: driver.app.is_leaving)
    assert (driver.app.next_folder, driver.app.next_session) == (str(AGENTS[1].folder), AGENTS[1].session.id)


async def test_it_asks_first_while_an_agent_works_here_but_not_where_a_host_has_it() -> None:
    for is_attached in (False, True):
        async with running(FakeHost()) as driver:
            play_work(driver.host.session)
            use_agents(driver)
            driver.app.options = replace(driver.app.options, is_attached=is_attached)
            await listed(driver, "/agents")
            await driver.press("home", "enter")
            if is_attached:
                await driver.until(lambda: driver.app.is_leaving)
            else:
                await driver.until_screen("Confirm")
                assert "Switch to website?" in driver.text()


@agent_cases
async def leaving_an_attached_app_asks_nothing_while_an_agent_works(driver: Driver) -> None:
    play_work(driver.host.session)
    driver.app.options = replace(driver.app.options, is_attached=True)
    await driver.press("ctrl+q")
    await driver.until(lambda: driver.app.is_leaving)
