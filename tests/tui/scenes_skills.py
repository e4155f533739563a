"""Moments of the list of skills."""

from __future__ import annotations

from tests.tui.driving import Driver
from tests.tui.fake_skills import some_skills, some_tools
from tests.tui.fakes import play_work


async def skills(driver: Driver) -> None:
    """Seven skills and two tools; the marked one names its tools."""
    play_work(driver.host.session)
    driver.host.extensions.skills.known = some_skills()
    driver.host.extensions.skills.tools = some_tools()
    await driver.type("/skill")
    await driver.until_screen("SkillList")
    await driver.until_shown("skill__draw")
    await driver.press("home")


async def broken_skill(driver: Driver) -> None:
    """The marked skill cannot be read, and it says where and why."""
    await skills(driver)
    await driver.press("down", "down", "down", "down")


async def skill_read(driver: Driver) -> None:
    """A skill is read as the model reads it."""
    await skills(driver)
    await driver.press("enter")
    await driver.until_screen("Reading")


async def tool_removed(driver: Driver) -> None:
    """Somebody is asked before a tool is forgotten."""
    await skills(driver)
    await driver.press("end", "up", "d")
    await driver.until_screen("Confirm")


SKILL_SCENES = (
    ("skills", skills),
    ("skills_broken", broken_skill),
    ("skills_read", skill_read),
    ("skills_remove", tool_removed),
)
