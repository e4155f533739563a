from __future__ import annotations

from lmtui.core.events import PlanChanged
from lmtui.core.plan import Plan, Todo
from lmtui.tui.commands import COMMANDS, Scope
from tests.tui.driving import SMALL, Driver, running
from tests.tui.one_app import Cases

cases = Cases()


@cases.each(
    ("typed", "screen"),
    [("/help", "Help"), ("/sessions", "Switcher"), ("/mode", "Picker"), ("/theme", "Picker"), ("/model", "Models")],
)
async def a_slash_command_opens_its_screen_and_escape_closes_it(driver: Driver, typed: str, screen: str) -> None:
    await driver.type(typed, screen)
    await driver.press("escape")
    assert driver.app.screen is driver.app.workbench
    assert driver.host.session.submitted == []


@cases
async def an_unknown_command_is_said_and_never_sent(driver: Driver) -> None:
    await driver.type("/mode wild")
    assert "no mode 'wild'" in driver.text("#say")
    await driver.type("/model nosuch:7b")
    assert "no server has the model nosuch:7b" in driver.text("#say")
    await driver.type("/frobnicate now")
    assert "no command /frobnicate" in driver.text("#say")
    assert driver.host.session.submitted == []
    assert driver.app.workbench.prompt.text == "/frobnicate now"  # to be put right


@cases
async def an_absolute_path_and_what_begins_with_a_blank_go_to_the_model(driver: Driver) -> None:
    for text, sent in (("/usr/lib is full, why?",) * 2, (" /model other:7b",) * 2, ("\n/nosuchthing", " /nosuchthing")):
        await driver.type(text)
        assert driver.host.session.submitted[-1] == sent
        driver.host.session.end_turn()
    assert "other:7b" not in driver.text("#foot")


@cases
async def the_session_says_its_id_status_and_new_title(driver: Driver) -> None:
    await driver.type("/session")
    await driver.until(lambda: driver.host.session.id in driver.text())
    await driver.press("escape")
    await driver.type("/status")
    await driver.until(lambda: "mode          normal" in driver.text())
    await driver.press("escape")
    await driver.type("/rename parser work")
    assert driver.view.state.title == "parser work"


@cases
async def a_new_session_begins_without_old_messages(driver: Driver) -> None:
    await driver.type("old task")
    await driver.type("/clear")
    await driver.until(lambda: len(driver.host.opened) == 2)
    await driver.settle()
    assert "old task" not in driver.text("#chat-pane")
    await driver.type("new task")
    assert driver.host.session.submitted == ["new task"]


@cases.at(SMALL)
async def plan_and_todos_are_shown(driver: Driver) -> None:
    driver.host.session.emit(PlanChanged(plan=Plan(todos=(Todo(1, "write tests", notes="for lists"),))))
    await driver.type("/plan")
    await driver.until(lambda: driver.app.workbench.panes.is_over("plan"))
    await driver.press("enter")
    await driver.until_shown("for lists", "#plan")


async def test_leaving_by_word() -> None:
    async with running() as driver:
        driver.app.workbench.prompt.replace_text("quit")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.is_closed)
    assert driver.app.return_code == 0


@cases
async def completion_offers_takes_and_runs(driver: Driver) -> None:
    await driver.press("/", "s", "t")
    assert "/status" in driver.text("#completions")
    await driver.press("tab")
    assert driver.app.workbench.prompt.text == "/status"
    await driver.press("enter", to="Reading")
    assert (driver.app.workbench.prompt.text, "sandbox" in driver.text()) == ("", True)


@cases
async def help_begins_with_the_focused_pane_and_filters_while_one_types(driver: Driver) -> None:
    await driver.press("f1", to="Help")
    first = next(line for line in driver.text().splitlines() if "Here" in line)
    assert {"Send", "Enter"} <= {*first.split()}
    await driver.press(*"rewind")
    await driver.until(lambda: "Most used" not in driver.text())
    assert "/rewind  Alt+R" in driver.text()
    await driver.press("enter")
    await driver.until(lambda: "Help" not in type(driver.app.screen).__name__)


def test_alt_with_a_letter_wins_over_the_prompt_wherever_it_is_a_command_of_the_workbench() -> None:
    held = [
        each.id
        for each in COMMANDS
        if each.scope == Scope.WORKBENCH and not each.is_first
        for key in each.keys
        if "alt+" in key
    ]
    assert held == []
