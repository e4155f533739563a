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
from lmtui.tui.modals.approval import plan_lines
from lmtui.tui.modals.consent import LETTER_S
from lmtui.tui.options import StartOptions
from tests.sets import for_each
from tests.tui.driving import SMALL, WIDE, Driver, running
from tests.tui.fakes import FakeHost, FakeSession
from tests.tui.one_app import Cases
from tests.tui.scenes_plan import PROPOSAL, plan_grants, plan_question, plan_read

cases = Cases()


@cases.at(SMALL)
async def a_yes_counts_only_once_the_end_was_read(driver: Driver) -> None:
    await plan_question(driver)
    for key in ("y", "g", "enter", "space"):
        await driver.press(key)
    assert driver.host.session.plans.answers == []
    await asyncio.sleep(LETTER_S)  # what follows at once would be part of the text "yg"
    await driver.press("end")
    await driver.wake()
    await driver.press("y", to="Workbench")
    assert driver.host.session.plans.answers == [("approve", ())]


@cases.at(SMALL)
async def what_the_plan_names_is_allowed_after_its_list_and_not_by_the_first_yes(driver: Driver) -> None:
    await plan_grants(driver)
    for key in ("n", "escape"):
        await driver.press(key, to="PlanQuestion")
        await driver.wake()
        await driver.press("a", to="PlanGrants")
        await driver.wake()
    assert driver.host.session.plans.answers == []
    await driver.press("alt+z")
    shown = driver.text()
    for words in ("Write(parser/lexer.py)", "Shell(pytest -q)", ".env (it may hold secrets", "rm -rf .pytest_cache (rm"):
        assert words in shown
    await driver.press("y", to="Workbench")
    (kind, rules), *_ = driver.host.session.plans.answers
    assert kind == "approve"
    assert isinstance(rules, tuple)
    assert len(rules) == 8
    assert not any("rm" in rule or ".env" in rule for rule in rules)


@cases.each(("keys", "answer"), [(("f", *"smaller", "enter"), ("revise", "smaller")), (("n",), ("reject", ""))])
async def words_and_a_no_go_back_to_the_model_which_stays_in_plan_mode(
    driver: Driver, keys: tuple[str, ...], answer: tuple[str, str]
) -> None:
    await plan_question(driver)
    for key in keys:
        await driver.press(key)
    await driver.until_screen("Workbench")
    assert driver.host.session.plans.answers == [answer]
    assert driver.host.session.mode is Mode.PLAN


@cases
async def what_is_left_for_later_comes_back_when_asked_for_and_goes_when_answered_elsewhere(driver: Driver) -> None:
    first = driver.host.session
    await plan_question(driver)
    await driver.press("escape", to="Workbench")
    assert first.plans.answers == []
    assert "Plan ready for review" in driver.text("#activity")
    await driver.press("f4")
    await driver.until(lambda: driver.view.session is not first and driver.view.state.proposal is None)
    assert driver.screen_name == "Workbench"
    await driver.press("alt+left")
    await driver.type("/plan", "PlanQuestion")
    first.plans.reject("plan_1")
    await driver.until_screen("Workbench")


@cases
async def a_task_after_the_command_begins_in_plan_mode_and_a_key_leaves_it(driver: Driver) -> None:
    session = driver.host.session
    await driver.type("/plan split the parser")
    assert (session.mode, session.submitted) == (Mode.PLAN, ["split the parser"])
    await driver.type("/mode manual")
    modes = []
    for _ in range(2):
        await driver.press("shift+tab")
        modes.append(session.mode)
    assert modes == [Mode.PLAN, Mode.MANUAL]


def editor(folder: Path, script: str) -> str:
    path = folder / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class NoTerminal:
    """An app's way to give the terminal away where there is none."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


async def test_an_edit_that_is_no_plan_says_why_and_a_plan_is_approved_as_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""if [ -e {tmp_path}/count ]; then cp "$1" {tmp_path}/second
sed -i 's/- 9$/- 1/; s/^  text: Count.*/  text: Only count/' "$1"
else touch {tmp_path}/count; sed -i 's/- 1$/- 9/' "$1"; fi"""
    monkeypatch.setenv("VISUAL", editor(tmp_path, script))
    async with running(size=WIDE) as driver:
        await plan_read(driver)
        monkeypatch.setattr(driver.app, "suspend", NoTerminal)
        await driver.press("e")
        await driver.until(lambda: "depends on '9', which is not a step" in driver.text())
        assert driver.host.session.plans.answers == []
        await driver.wake()
        await driver.press("e")
        await driver.until(lambda: "changed by you" in driver.text())
        second = (tmp_path / "second").read_text()
        assert second.startswith("# a step depends on")
        assert "- 9" in second
        await driver.press("home")
        assert "Only count" in driver.text()
        await driver.wake()
        await driver.press("end", "y", to="Workbench")
        edited = [each.event for each in driver.host.session.history() if isinstance(each.event, PlanDecided)][-1].edited
        assert edited == replace(PROPOSAL, steps=(replace(PROPOSAL.steps[0], text="Only count"), *PROPOSAL.steps[1:]))


@for_each("width", [20, 160])
def test_everything_of_a_plan_is_shown_with_what_hides_named(width: int) -> None:
    step = PlanStep(1, "do\u202e it\x1b[2J", files=("a\u200bb",), commands=("make\nrm x",), verification="c" * 300)
    lines = plan_lines(Proposal("t", (step,), "goal", ("risk",)), width)
    text = "".join(part for line in lines for part, _ in line).replace(" ", "")
    for words in ("<U+202E>", "<U+200B>", "rmx", "goal", "risk"):
        assert words in text
    assert text.count("c") >= 300
    assert "\x1b" not in text


async def test_a_session_that_is_opened_again_asks_about_its_plan() -> None:
    host = FakeHost()
    session = FakeSession("20260314_140200_abc123", clock=host.clock)
    session.emit(PlanProposed(proposal_id="plan_1", proposal=PROPOSAL))
    host.opened[session.id] = session
    async with running(host, options=StartOptions(session_id=session.id), size=WIDE) as driver:
        await driver.until_screen("PlanQuestion")
        assert "Nested comments in the lexer" in driver.text()
