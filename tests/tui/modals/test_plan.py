from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.core.agent_events import PlanDecided, PlanProposed
from lmtui.core.permissions.rules import Mode
from lmtui.core.plan import PlanStep
from lmtui.core.proposals import Proposal
from lmtui.tui.controllers.plan_controller import plan_lines
from lmtui.tui.modals.consent import LETTER_S
from lmtui.tui.options import StartOptions
from tests.sets import for_each
from tests.tui.driving import SMALL, WIDE, Driver, running
from tests.tui.fakes import FakeClock, FakeHost, FakeSession
from tests.tui.one_app import Cases
from tests.tui.scenes_plan import PROPOSAL, plan_grants, plan_question, plan_read, propose

cases = Cases()


def decided(driver: Driver) -> PlanDecided:
    return [each.event for each in driver.host.session.history() if isinstance(each.event, PlanDecided)][-1]


async def test_a_yes_counts_only_once_the_end_was_read() -> None:
    async with running(size=SMALL) as driver:
        await plan_question(driver)
        for key in ("y", "g", "enter", "space"):
            await driver.press(key)
        assert driver.host.session.plans.answers == []
        await asyncio.sleep(LETTER_S)  # what follows at once would be part of the text "yg"
        await driver.press("end")
        await driver.press("y")
        await driver.until_screen("Workbench")
        assert driver.host.session.plans.answers == [("approve", ())]


async def test_what_the_plan_names_is_allowed_after_its_list_and_not_by_the_first_yes() -> None:
    async with running(size=SMALL) as driver:
        await plan_grants(driver)
        await driver.press("alt+z")
        shown = driver.text()
        for words in ("Write(parser/lexer.py)", "Shell(pytest -q)", ".env: it may hold secrets", "rm -rf .pytest_cache: rm"):
            assert words in shown
        await driver.press("y")
        await driver.until_screen("Workbench")
        (kind, rules), *_ = driver.host.session.plans.answers
        assert kind == "approve"
        assert isinstance(rules, tuple)
        assert len(rules) == 8
        assert not any("rm" in rule or ".env" in rule for rule in rules)


@cases.each("key", ["n", "escape"])
async def a_no_to_the_list_goes_back_to_the_plan(driver: Driver, key: str) -> None:
    await plan_grants(driver)
    await driver.press(key)
    await driver.until_screen("PlanQuestion")
    assert driver.host.session.plans.answers == []


@cases
async def words_go_back_to_the_model(driver: Driver) -> None:
    await plan_question(driver)
    await driver.press("f")
    await driver.press(*"smaller", "enter")
    await driver.until_screen("Workbench")
    assert driver.host.session.plans.answers == [("revise", "smaller")]
    assert driver.host.session.mode is Mode.PLAN


@cases
async def a_no_drops_the_plan_and_stays_in_plan_mode(driver: Driver) -> None:
    await plan_question(driver)
    await driver.press("n")
    await driver.until_screen("Workbench")
    assert driver.host.session.plans.answers == [("reject", "")]
    assert driver.host.session.mode is Mode.PLAN


@cases
async def what_is_left_for_later_stays_and_comes_back_when_asked_for(driver: Driver) -> None:
    await plan_question(driver)
    await driver.press("escape")
    await driver.until_screen("Workbench")
    assert driver.host.session.plans.answers == []
    assert "Plan ready for review" in driver.text("#activity")
    await driver.type("/plan")
    await driver.until_screen("PlanQuestion")


async def test_a_plan_is_put_away_when_it_is_answered_elsewhere() -> None:
    async with running() as driver:
        await plan_question(driver)
        driver.host.session.plans.reject("plan_1")
        await driver.until_screen("Workbench")


async def test_another_session_is_not_asked_about_the_plan_of_this_one() -> None:
    async with running() as driver:
        await driver.type("/mode plan")
        propose(driver)
        await driver.until_screen("PlanQuestion")
        await driver.press("escape")
        await driver.press("f4")
        await driver.until(
            lambda: driver.app.workbench.active is not None and driver.app.workbench.active.state.proposal is None
        )
        assert type(driver.app.screen).__name__ == "Workbench"


@cases
async def a_task_after_the_command_begins_in_plan_mode(driver: Driver) -> None:
    await driver.type("/plan split the parser")
    assert driver.host.session.mode is Mode.PLAN
    assert driver.host.session.submitted == ["split the parser"]


def editor(folder: Path, script: str) -> str:
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class NoTerminal:
    """An app's way to give the terminal away where there is none."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def test_an_edited_plan_is_shown_and_approved_as_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", editor(tmp_path, 'sed -i "s/^step 1: .*/step 1: Only count/" "$1"'))
    async with running(size=WIDE) as driver:
        await plan_read(driver)
        assert driver.screen_name == "PlanQuestion"
        monkeypatch.setattr(driver.app, "suspend", NoTerminal)
        await driver.press("e")
        await driver.until(lambda: "changed by you" in driver.text())
        await driver.press("home")
        assert "Only count" in driver.text()
        await driver.wake()
        await driver.press("end", "y")
        await driver.until_screen("Workbench")
        edited = decided(driver).edited
        assert edited is not None
        assert edited == replace(PROPOSAL, steps=(replace(PROPOSAL.steps[0], text="Only count"), *PROPOSAL.steps[1:]))


async def test_what_is_no_plan_is_named_by_its_line_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "count"
    script = f"""if [ -e {counter} ]; then cp "$1" {tmp_path}/second; sed -i 's/after: 9/after: 1/' "$1"
else touch {counter}; sed -i 's/after: 1$/after: 9/' "$1"; fi"""
    monkeypatch.setenv("VISUAL", editor(tmp_path, script))
    async with running(size=WIDE) as driver:
        await plan_read(driver)
        monkeypatch.setattr(driver.app, "suspend", NoTerminal)
        await driver.press("e")
        await driver.until(lambda: "after names '9', which is not a step" in driver.text())
        assert driver.host.session.plans.answers == []
        await driver.wake()
        await driver.press("e")
        await driver.until(lambda: "read-only until you approve" in driver.text())
        second = (tmp_path / "second").read_text()
        assert second.startswith("# line ")
        assert "after: 9" in second


@for_each("width", [20, 40, 80, 160])
def test_everything_of_a_plan_is_shown_with_what_hides_named(width: int) -> None:
    step = PlanStep(1, "do\u202e it\x1b[2J", files=("a\u200bb",), commands=("make\nrm x",), verification="c" * 300)
    lines = plan_lines(Proposal("t", (step,), "goal", ("risk",)), width)
    text = "".join(part for line in lines for part, _ in line).replace(" ", "")
    for words in ("<U+202E>", "<U+200B>", "rmx", "goal", "risk"):
        assert words in text
    assert text.count("c") >= 300
    assert "\x1b" not in text


@cases
async def a_key_in_the_prompt_turns_plan_mode_on_and_off(driver: Driver) -> None:
    await driver.type("/mode manual")
    await driver.press("shift+tab")
    modes = [driver.host.session.mode]
    await driver.press("shift+tab")
    assert [*modes, driver.host.session.mode] == [Mode.PLAN, Mode.MANUAL]


async def test_a_session_that_is_opened_again_asks_about_its_plan() -> None:
    host = FakeHost(clock=FakeClock())
    session = FakeSession("20260314_140200_abc123", clock=host.clock)
    session.emit(PlanProposed(proposal_id="plan_1", proposal=PROPOSAL))
    host.opened[session.id] = session
    async with running(host, options=StartOptions(session_id=session.id), size=WIDE) as driver:
        await driver.until_screen("PlanQuestion")
        assert "Nested comments in the lexer" in driver.text()


@pytest.mark.parametrize("words", ["edit it", "great but", "read #read", "no, smaller", "yes and"])
async def test_a_sentence_over_a_plan_goes_to_the_prompt_and_answers_nothing(words: str) -> None:
    async with running() as driver:
        await plan_question(driver)
        await driver.type_fast(words)
        await driver.until(lambda: driver.app.workbench.prompt.text == words)
        assert driver.host.session.plans.answers == []
        assert driver.app.screen is driver.app.workbench
        assert "Set aside" in driver.text()


async def test_the_cases() -> None:
    await cases.run()
