from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from lmtui.core.events import PlanChanged
from lmtui.core.plan import Plan, Todo
from lmtui.core.project_checks import CheckEvent, CheckRan
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


async def test_help_lists_every_slash_command() -> None:
    from lmtui.tui.controllers.command_controller import help_rows

    text = "\n".join(row.words for row in help_rows(()))
    assert [name for each in COMMANDS for name in each.slash if f"/{name}" not in text] == []


@cases
async def an_unknown_command_is_said_and_never_sent(driver: Driver) -> None:
    await driver.type("/mode wild")
    assert "no mode 'wild'" in driver.text("#say")
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
    assert driver.host.session.id in driver.text("#say")
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
    await driver.until_shown("write tests", "#plan")
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
    assert driver.app.workbench.prompt.text == ""
    assert "sandbox" in driver.text()


@cases
async def completion_walks_with_the_arrow_keys_and_escape_closes_it(driver: Driver) -> None:
    await driver.press("/", "s", "e", "down", "tab")
    assert driver.app.workbench.prompt.text == "/session"
    await driver.press("escape")
    assert not driver.app.screen.query_one("#completions").display


@cases
async def everything_is_found_by_name_in_the_palette(driver: Driver) -> None:
    await driver.press("ctrl+p", to="Picker")
    await driver.press(*"session id", "enter")
    assert driver.host.session.id in driver.text("#say")


@cases
async def tab_moves_between_panes_and_question_mark_helps_outside_the_prompt(driver: Driver) -> None:
    await driver.press("question_mark")
    assert driver.app.workbench.prompt.text == "?"
    await driver.press("backspace", "tab")
    assert not driver.app.workbench.prompt.has_focus
    await driver.press("question_mark", to="Help")
    await driver.until(lambda: "Here" in driver.text())
    assert "Copy code" in driver.text()


@cases
async def help_begins_with_the_focused_pane_and_filters_while_one_types(driver: Driver) -> None:
    await driver.press("f1", to="Help")
    first = next(line for line in driver.text().splitlines() if "Here" in line)
    assert "Send" in first
    assert "Enter" in first
    await driver.press(*"rewind")
    await driver.until(lambda: "Most used" not in driver.text())
    assert "/rewind  Alt+R" in driver.text()
    await driver.press("enter")
    await driver.until(lambda: "Help" not in type(driver.app.screen).__name__)


@cases
async def several_lines_grow_the_prompt_and_are_sent_as_one(driver: Driver) -> None:
    await driver.press("a", "ctrl+j", "b", "ctrl+j", "c")
    assert driver.app.workbench.prompt.region.height == 3
    await driver.press("enter")
    assert driver.host.session.submitted == ["a\nb\nc"]
    assert driver.app.workbench.prompt.region.height == 1


class CountedChecks:
    """Takes note of each run."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def run(self, on_event: Callable[[CheckEvent], None] | None = None) -> Sequence[CheckRan]:
        self.told.append(on_event)
        return ()

    def cancel(self) -> bool:
        return False

    def why_nothing(self) -> str:
        return ""


@cases
async def alt_c_at_the_prompt_checks_and_writes_nothing(driver: Driver) -> None:
    checks = CountedChecks()
    driver.host.extensions.checks = checks
    await driver.type_fast("half a task")
    driver.app.post_message(events.Key("alt+c", "c"))  # what comes of the bytes ESC c
    await driver.until(lambda: bool(checks.told))
    assert driver.app.workbench.prompt.text == "half a task"


def test_alt_with_a_letter_wins_over_the_prompt_wherever_it_is_a_command_of_the_workbench() -> None:
    held = [
        each.id
        for each in COMMANDS
        if each.scope == Scope.WORKBENCH and not each.is_first
        for key in each.keys
        if "alt+" in key
    ]
    assert held == []
