from __future__ import annotations

from lmtui.core.subagents import FileState
from tests.tui.driving import SMALL, Driver
from tests.tui.fake_skills import FakeSkills, some_skills, some_tools
from tests.tui.one_app import Cases

cases = Cases()


async def at_list(driver: Driver) -> FakeSkills:
    skills = driver.host.extensions.skills
    skills.known, skills.tools = some_skills(), some_tools()
    await driver.type("/skill", "SkillList")
    await driver.until(lambda: "skill__draw" in driver.text())
    await driver.press("home")
    return skills


async def mark(driver: Driver, state: FileState) -> None:
    states = [skill.state for skill in some_skills()]
    await driver.press("home", *["down"] * states.index(state))


@cases.full(SMALL)
async def each_says_what_to_do_about_it_and_is_read_without_markup(driver: Driver) -> None:
    await at_list(driver)
    await mark(driver, FileState.WAITING)
    await driver.until(lambda: "/trust" in driver.text())
    await mark(driver, FileState.BROKEN)
    await driver.until(lambda: "line 3: mapping values" in driver.text())
    await driver.press("y", "enter", to="Reading")
    await driver.until(lambda: "mapping values" in driver.text())
    await driver.press("escape", "home", to="SkillList")
    await driver.press("enter", to="Reading")
    await driver.until(lambda: "[@click=app.leave]No markup[/]" in driver.text())


@cases
async def the_marked_one_is_written_into_the_prompt_and_goes_to_the_model_with_more_words(driver: Driver) -> None:
    await at_list(driver)
    await driver.press("y")
    await driver.until(lambda: driver.app.workbench.prompt.text == "/skill changelog ")
    assert driver.host.extensions.skills.begun == []
    await driver.type("/skill changelog for version 2")
    await driver.until(lambda: driver.host.extensions.skills.begun == [("changelog", "for version 2")])
    await driver.type("/skill deploy now")
    await driver.until(lambda: "no skill 'deploy'" in driver.text())
    assert len(driver.host.extensions.skills.begun) == 1


@cases.full()
async def a_tool_is_read_and_forgotten_only_after_a_second_yes(driver: Driver) -> None:
    skills = await at_list(driver)
    await driver.press("d")
    assert type(driver.app.screen).__name__ == "SkillList"
    await driver.press("end", "up", "enter", to="Reading")
    await driver.until(lambda: "def count_words" in driver.text())
    await driver.press("escape", to="SkillList")
    await driver.press("d", to="Confirm")
    await driver.press("n", to="SkillList")
    assert len(skills.tools) == 2
    await driver.press("d", to="Confirm")
    await driver.press("y", to="SkillList")
    await driver.until(lambda: len(skills.tools) == 1)
    await driver.until(lambda: "skill__count_words" not in driver.text())
