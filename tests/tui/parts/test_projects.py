from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fakes import FakeHost, play_work
from tests.tui.one_app import Cases
from tests.tui.scenes_lists import OTHER, use_projects


def host_with_projects() -> FakeHost:
    host = FakeHost()
    use_projects(host)
    return host


async def listed(driver: Driver) -> None:
    await driver.type("/projects", "ProjectList")
    await driver.until(lambda: "lexer" in driver.text())


cases = Cases(host_with_projects)


@cases
async def the_rows_say_what_needs_the_user_and_a_gone_folder_is_not_gone_to(driver: Driver) -> None:
    await listed(driver)
    assert "you are here" in driver.text()
    await driver.press("down")
    await driver.until(
        lambda: "needs you: 1 failed task, 2 open questions" in driver.text() and "2 plans, 9/14 done" in driver.text()
    )
    await driver.press("down", "enter")
    await driver.until(lambda: "the folder is gone" in driver.text())
    assert "[red]" in driver.text()
    assert "\x1b" not in driver.text()
    assert driver.app.next_folder == ""
    await driver.press("home", "enter", to="Workbench")
    assert not driver.app.is_leaving


@cases.full()
async def it_asks_first_while_an_agent_works_and_no_means_stay(driver: Driver) -> None:
    play_work(driver.host.session)
    await listed(driver)
    for answer in ("n", "y"):
        await driver.press("home", "down", "enter", to="Confirm")
        assert "Switch to lexer?" in driver.text()
        await driver.press(answer)
        if answer == "n":
            await driver.until_screen("Workbench")
            assert driver.app.next_folder == ""
            await listed(driver)
    await driver.until(lambda: driver.app.is_leaving)
    assert driver.app.next_folder == OTHER.path
