from __future__ import annotations

from lmtui.core.budgets import ReportWritten, SessionBudget
from lmtui.core.permissions.rules import Mode
from tests.tui.driving import Driver
from tests.tui.one_app import Cases

cases = Cases()


@cases
async def room_is_made_with_what_matters(driver: Driver) -> None:
    await driver.type("/compact the port numbers")
    assert driver.host.session.waiting.wishes == ["the port numbers"]


@cases
async def budget_is_said_set_and_taken_away(driver: Driver) -> None:
    await driver.type("/budget")
    await driver.until(lambda: "no budget; 1 min 15 s, 3 steps, 1,000 tokens used" in driver.text("#say"))
    await driver.type("/budget 3h 200 steps")
    await driver.until(lambda: "budget: 3 h, 200 steps" in driver.text("#say"))
    assert driver.host.session.given == SessionBudget(steps=200, seconds=10_800)
    await driver.type("/budget much")
    await driver.until(lambda: "does not begin with a budget" in driver.text("#say"))
    await driver.type("/budget off")
    assert not driver.host.session.given


@cases
async def deep_work_plans_first_under_its_budget(driver: Driver) -> None:
    await driver.type("/deep")
    await driver.until(lambda: "/deep needs a budget and a task" in driver.text("#say"))
    await driver.type("/deep 2h")
    await driver.until(lambda: "no task behind the budget" in driver.text("#say"))
    await driver.type("/deep 2h 50 steps port the parser")
    session = driver.host.session
    assert (session.mode, session.submitted[-1]) == (Mode.PLAN, "port the parser")
    assert session.given == SessionBudget(steps=50, seconds=7200)


@cases
async def report_stands_in_the_conversation(driver: Driver) -> None:
    driver.host.session.emit(ReportWritten(text="**Report**: done.\n\n**Done**\n- the parser"))
    await driver.until(lambda: "the parser" in driver.text())
