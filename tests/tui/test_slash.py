from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from textual import events

from lmtui.core.events import PlanChanged
from lmtui.core.plan import Plan, Todo
from lmtui.core.project_checks import CheckEvent, CheckRan, NoWorkspaceChecks
from lmtui.tui.commands import COMMANDS, Scope
from tests.tui.driving import SMALL, WIDE, running


@pytest.mark.parametrize(
    ("typed", "screen"),
    [("/help", "Help"), ("/sessions", "Switcher"), ("/mode", "Picker"), ("/theme", "Picker"), ("/model", "Models")],
)
async def test_a_slash_command_opens_its_screen_and_escape_closes_it(typed: str, screen: str) -> None:
    async with running() as driver:
        await driver.type(typed)
        await driver.until_screen(screen)
        await driver.press("escape")
        assert driver.app.screen is driver.app.workbench
        assert driver.host.session.submitted == []


async def test_help_lists_every_slash_command() -> None:
    from lmtui.tui.controllers.command_controller import help_rows

    text = "\n".join(row.words for row in help_rows(()))
    assert [name for each in COMMANDS for name in each.slash if f"/{name}" not in text] == []


async def test_an_unknown_command_is_said_and_never_sent() -> None:
    async with running() as driver:
        await driver.type("/frobnicate now")
        assert "no command /frobnicate" in driver.text("#say")
        assert driver.host.session.submitted == []
        assert driver.app.workbench.prompt.text == "/frobnicate now"  # to be put right


@pytest.mark.parametrize("size", [WIDE, SMALL, (60, 18)])
async def test_completion_keeps_a_gap_behind_a_long_argument(size: tuple[int, int]) -> None:
    async with running(size=size) as driver:
        await driver.press("/", "g", "o", "a")
        line = next(each for each in driver.text("#completions").splitlines() if "/goal [" in each)
        assert re.search(r"clear\]  +\S", line) or size[0] == 60


async def test_an_absolute_path_goes_to_the_model() -> None:
    async with running() as driver:
        await driver.type("/usr/lib is full, why?")
        assert driver.host.session.submitted == ["/usr/lib is full, why?"]


@pytest.mark.parametrize("text", [" /model other:7b", "\n/nosuchthing"])
async def test_what_begins_with_a_blank_and_a_slash_is_sent_as_text(text: str) -> None:
    async with running() as driver:
        driver.app.workbench.prompt.replace_text(text)
        await driver.press("enter")
        assert driver.host.session.submitted == [f" {text.strip()}"]
        assert "other:7b" not in driver.text("#foot")


async def test_a_mode_that_is_none_is_said() -> None:
    async with running() as driver:
        await driver.type("/mode wild")
        assert "no mode 'wild'" in driver.text("#say")


async def test_a_mode_is_chosen_from_the_list() -> None:
    async with running() as driver:
        await driver.press("f5")
        await driver.until_screen("Picker")
        await driver.press("down", "enter")
        assert driver.host.session.mode.value == "auto"


async def test_the_model_is_changed_by_name_and_from_the_list() -> None:
    async with running() as driver:
        await driver.type("/model other:7b")
        assert "other:7b" in driver.text("#foot")
        await driver.type("/model")
        await driver.until_screen("Models")
        await driver.until(lambda: "llama3.2:3b" in driver.text())
        await driver.press("slash", *"llama3", "enter", "enter")
        await driver.until(lambda: "llama3.2:3b" in driver.text("#foot"))


async def test_the_session_says_its_id_status_and_new_title() -> None:
    async with running() as driver:
        await driver.type("/session")
        assert driver.host.session.id in driver.text("#say")
        await driver.type("/status")
        assert "mode normal" in driver.text("#say").replace("\n", " ")
        await driver.type("/rename parser work")
        assert driver.app.workbench.active is not None
        assert driver.app.workbench.active.state.title == "parser work"


@pytest.mark.parametrize("typed", ["/new", "/clear"])
async def test_a_new_session_begins_without_old_messages(typed: str) -> None:
    async with running() as driver:
        await driver.type("old task")
        await driver.type(typed)
        await driver.until(lambda: len(driver.host.opened) == 2)
        await driver.settle()
        assert "old task" not in driver.text("#chat-pane")
        await driver.type("new task")
        assert driver.host.session.submitted == ["new task"]


@pytest.mark.parametrize("typed", ["/plan", "/todo"])
async def test_plan_and_todos_are_shown(typed: str) -> None:
    async with running(size=SMALL) as driver:
        driver.host.session.emit(PlanChanged(plan=Plan(todos=(Todo(1, "write tests", notes="for lists"),))))
        await driver.type(typed)
        assert driver.app.workbench.panes.is_over("plan")
        assert "write tests" in driver.text("#plan")
        assert "for lists" in driver.text("#plan")


@pytest.mark.parametrize("typed", ["/exit", "/quit", "quit"])
async def test_leaving_by_word(typed: str) -> None:
    async with running() as driver:
        driver.app.workbench.prompt.replace_text(typed)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.is_closed)
    assert driver.app.return_code == 0


async def test_completion_offers_takes_and_runs() -> None:
    async with running() as driver:
        await driver.press("/", "s", "t")
        assert "/status" in driver.text("#completions")
        await driver.press("tab")
        assert driver.app.workbench.prompt.text == "/status"
        await driver.press("enter")
        assert driver.app.workbench.prompt.text == ""
        assert "sandbox" in driver.text("#say")


async def test_completion_walks_with_the_arrow_keys_and_escape_closes_it() -> None:
    async with running() as driver:
        await driver.press("/", "s", "e", "down", "tab")
        assert driver.app.workbench.prompt.text == "/session"
        await driver.press("escape")
        assert not driver.app.screen.query_one("#completions").display


async def test_everything_is_found_by_name_in_the_palette() -> None:
    async with running() as driver:
        await driver.press("ctrl+p")
        await driver.until_screen("Picker")
        await driver.press(*"session id", "enter")
        assert driver.host.session.id in driver.text("#say")


async def test_tab_moves_between_panes_and_question_mark_helps_outside_the_prompt() -> None:
    async with running() as driver:
        await driver.press("question_mark")
        assert driver.app.workbench.prompt.text == "?"
        await driver.press("backspace", "tab")
        assert not driver.app.workbench.prompt.has_focus
        await driver.press("question_mark")
        await driver.until_screen("Help")
        await driver.until(lambda: "Here" in driver.text())
        assert "Copy code" in driver.text()


async def test_help_begins_with_the_focused_pane_and_filters_while_one_types() -> None:
    async with running() as driver:
        await driver.press("f1")
        await driver.until_screen("Help")
        first = next(line for line in driver.text().splitlines() if "Here" in line)
        assert "Send" in first
        assert "Enter" in first
        await driver.press(*"rewind")
        await driver.until(lambda: "Most used" not in driver.text())
        assert "/rewind  Alt+R" in driver.text()
        await driver.press("enter")
        await driver.until(lambda: "Help" not in type(driver.app.screen).__name__)


async def test_several_lines_grow_the_prompt_and_are_sent_as_one() -> None:
    async with running() as driver:
        await driver.press("a", "ctrl+j", "b", "ctrl+j", "c")
        assert driver.app.workbench.prompt.region.height == 3
        await driver.press("enter")
        assert driver.host.session.submitted == ["a\nb\nc"]
        assert driver.app.workbench.prompt.region.height == 1


async def test_any_number_of_steps_may_be_typed() -> None:
    async with running() as driver:
        await driver.type(f"/undo {'9' * 5000}")
        assert "undo is not available" in driver.text("#say")


class CountedChecks(NoWorkspaceChecks):
    """Takes note of each run."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def run(self, on_event: Callable[[CheckEvent], None] | None = None) -> Sequence[CheckRan]:
        self.told.append(on_event)
        return ()


async def test_alt_c_at_the_prompt_checks_and_writes_nothing() -> None:
    checks = CountedChecks()
    async with running() as driver:
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
