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


def shows_side(driver: Driver) -> bool:
    side = driver.app.workbench.query_one("#side-pane")
    return side.display and side.visible


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


@cases
async def the_right_column_shows_with_its_first_content(driver: Driver) -> None:
    session = driver.host.session
    await driver.type("go")
    assert not shows_side(driver)
    assert "No tool calls yet" not in driver.text()
    session.emit(PlanChanged(plan=Plan(todos=(Todo(1, "count", TodoStatus.PENDING),))))
    await driver.settle()
    assert shows_side(driver)
    assert "Log" not in driver.text("#side-pane")
    session.start_call("c1", "read", "parser/lexer.py")
    await driver.settle()
    assert "Log" in driver.text("#side-pane")


@cases.each(("key", "words"), [("f7", "No plan yet"), ("f8", "No tool calls yet")])
async def a_key_shows_the_right_column_before_there_is_anything_in_it(driver: Driver, key: str, words: str) -> None:
    await driver.type("go")
    await driver.press(key)
    assert words in driver.text("#side-pane")
    focused = driver.app.focused
    assert focused is not None
    assert focused is not driver.app.workbench.prompt
    await driver.press(key)
    assert not shows_side(driver)
