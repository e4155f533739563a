from __future__ import annotations

from textual.geometry import Region

from lmtui.core.events import PlanChanged
from lmtui.core.plan import Plan, Todo, TodoStatus
from lmtui.tui.widgets.bars import Tone
from tests.tui.driving import WIDE, Driver
from tests.tui.one_app import Cases

cases = Cases()


def chat_region(driver: Driver) -> Region:
    return driver.app.workbench.query_one("#chat-pane").region


@cases.each("size", [WIDE, (60, 18)])
async def the_conversation_never_reflows_in_a_turn(driver: Driver, size: tuple[int, int]) -> None:
    session, workbench = driver.host.session, driver.app.workbench
    await driver.type("Make comments nest.")
    first = chat_region(driver)
    seen: list[Region] = []

    async def step() -> None:
        await driver.settle()
        seen.append(chat_region(driver))

    session.say("I will look.", thinking="how", thinking_s=2.0)
    await step()
    session.start_call("c1", "read", "parser/lexer.py")
    await step()
    session.finish_call("c1", "read", result="class Lexer:")
    session.emit(PlanChanged(plan=Plan(todos=(Todo(1, "count the depth", TodoStatus.PENDING),))))
    await step()
    assert seen[:-1] == [first] * (len(seen) - 1)
    first = seen[-1]  # the column of the plan came
    seen.clear()
    await driver.press("/", "s")
    await step()
    await driver.press("escape")
    await driver.type("And document it.")
    await step()
    tones: tuple[Tone, ...] = ("info", "warning", "error")
    for tone in tones:
        workbench.say("a notice " * 9, tone)
        await step()
    session.ask("a1", "make all")
    await driver.until_screen("Approval")
    await step()
    driver.host.clock.forward(1)
    await driver.press("y", to="Workbench")
    await step()
    session.end_turn()
    await step()
    assert [each for each in seen if each != first] == []


@cases.each("size", [WIDE, (120, 30)])
async def message_question_and_prompt_begin_in_one_column(driver: Driver, size: tuple[int, int]) -> None:
    del size
    driver.host.session.begin_turn("go")
    await driver.settle()
    bars = [row.rindex("▌") for row in driver.text().split("\n") if "▌ go" in row or "▌ Ask" in row]
    driver.host.session.ask("a1", "make all")
    await driver.until_shown("make all")
    bars += [row.rindex("▌") for row in driver.text().split("\n") if "Run this command?" in row]
    assert [len(bars), len(set(bars))] == [3, 1]
