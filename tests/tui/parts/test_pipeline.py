"""The list of the pipeline: what it shows, and what its keys do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import thread_time

import pytest

from lmtui.core.errors import UsageError
from lmtui.features.pipeline.screens import PipelineList
from lmtui.features.pipeline.values import OpenQuestion, PipelinePlan, PipelineState, TaskSpec
from lmtui.tui.lines.table import Table
from tests.tui.driving import SMALL, Driver, running
from tests.tui.fake_pipeline import FakePipeline
from tests.tui.fakes import START
from tests.tui.one_app import Cases
from tests.tui.scenes_pipeline import large_plan, opened, over, some_plan, task

cases = Cases()


def plans(driver: Driver) -> FakePipeline:
    return driver.host.extensions.pipeline


async def at(driver: Driver, task_id: int) -> None:
    """Mark a task."""
    assert isinstance(driver.app.screen, PipelineList)
    driver.app.screen.show(at=("PipelineTask", task_id))
    await driver.settle()
    assert getattr(driver.app.screen.current, "id", 0) == task_id


async def until_said(driver: Driver, words: str) -> None:
    """Wait for what is said below the list."""
    await driver.until(lambda: words in driver.text("#pipeline-state"))


@cases
async def a_task_is_retried_skipped_and_paused(driver: Driver) -> None:
    await opened(driver, some_plan())
    await at(driver, 29)
    await driver.press("r")
    assert plans(driver).task(29).state is PipelineState.READY
    await driver.press("space")
    assert plans(driver).task(29).is_paused
    assert "Space resume" in driver.text()
    await driver.press("space")
    assert not plans(driver).task(29).is_paused
    await driver.press("n")
    assert plans(driver).task(29).state is PipelineState.SKIPPED


@cases
async def the_plan_is_stopped_after_a_question_and_resumed(driver: Driver) -> None:
    await opened(driver, some_plan())
    await driver.press("x", to="Confirm")
    await driver.press("n")
    assert not plans(driver).is_stopped
    await driver.press("x", to="Confirm")
    await driver.press("y")
    assert plans(driver).is_stopped
    plans(driver).show(replace(some_plan(), tasks=(task(1, "One", "ready"),), questions=(), is_paused=True))
    await driver.settle()
    assert "x resume plan" in driver.text()
    await driver.press("x")
    assert plans(driver).begun == ["PLAN.md"]


@cases
async def details_show_the_whole_task_and_its_session_is_opened(driver: Driver) -> None:
    await opened(driver, some_plan())
    await at(driver, 29)
    await driver.press("enter", to="Reading")
    assert "Checks: pytest -q tests/test_lexer.py" in driver.text()
    await driver.press("escape", to="PipelineList")
    await driver.press("v")
    wanted = plans(driver).task(29).attempts[-1].session
    await driver.until(lambda: wanted in driver.app.workbench.sessions.views)


@cases
async def a_blocking_question_is_answered_and_only_keys_that_count_are_shown(driver: Driver) -> None:
    await opened(driver, some_plan())
    assert "n skip" not in driver.text()
    await driver.press("n", "enter", to="AskText")
    await driver.press("escape", to="PipelineList")
    await driver.press("y", to="AskText")
    assert "Should an unclosed comment" in driver.text()
    await driver.press(*"A warning", "enter", to="PipelineList")
    await driver.until(lambda: plans(driver).plans[0].questions[1].answer == "A warning")
    await driver.until(lambda: "Question" not in driver.text() and "y answer" not in driver.text())
    await at(driver, 28)
    assert all(f"  {key}" not in driver.text() for key in ("n skip", "o open session", "e edit"))
    assert "Space pause" in driver.text()


@cases
async def another_plan_is_begun_or_the_reason_said(driver: Driver) -> None:
    await opened(driver)
    assert "No plans yet. /pipeline PLAN.md works through a plan file." in driver.text()
    await driver.press("a", to="AskText")
    await driver.press(*"NOSUCH", "enter")
    await until_said(driver, "the plan NOSUCH cannot be read")
    await driver.press("a", to="AskText")
    await driver.press(*"docs/PLAN.md", "enter", to="Confirm")
    assert not plans(driver).begun
    await driver.press("y")
    assert plans(driver).begun == ["docs/PLAN.md"]
    await driver.until_shown("planning…")
    await driver.press("escape")
    assert "pipeline planning" in driver.text("#header")
    plans(driver).show(some_plan())
    await driver.type("/pipeline", "PipelineList")
    assert "planning…" not in driver.text()
    plans(driver).failure = UsageError("there is no file x.md", "Name another.")
    await driver.press("a", to="AskText")
    await driver.press(*"x.md", "enter")
    await until_said(driver, "there is no file x.md")


async def test_a_task_is_edited_and_a_wrong_text_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed: list[str] = []
    wanted = ['title = "Other', 'title = "Other"\ntext = "Do it."']

    async def edit_text(_: object, text: str, __: str, *, say: object) -> str:
        typed.append(text)
        return f"# what stays\n{wanted[len(typed) - 1]}"

    monkeypatch.setattr("lmtui.features.pipeline.screens.edit_text", edit_text)
    async with running() as driver:
        await opened(driver, some_plan())
        await at(driver, 31)
        await driver.press("e")
        await until_said(driver, "line 2")
        assert plans(driver).task(31).spec.title == "Escape sequences"
        await driver.press("e")
        await driver.until(lambda: plans(driver).task(31).spec.title == "Other")
        assert typed[0].startswith("# Save and close to change the task.\ntitle = ")
        assert typed[1].startswith("# not valid TOML")
        assert typed[1].endswith('\ntitle = "Other')
        assert plans(driver).task(31).spec.text == "Do it."
        assert plans(driver).task(31).spec.checks


@cases.each(
    ("words", "said"),
    [
        ("PLAN.md", ""),
        ("pause", "Paused the pipeline."),
        ("resume", "Resumed the pipeline."),
        ("stop", "Stopped the pipeline."),
        ("retry 29", "Task 29 is ready again."),
        ("skip 31", "Skipped task 31."),
        ("answer 2 A warning.", "Answered question 2."),
        ("status", "BLOCKING 2"),
        ("NOSUCH", "the plan NOSUCH cannot be read"),
        ("retry x", "/pipeline retry takes N, the number of a task"),
        ("answer 2", "/pipeline answer takes N TEXT"),
        ("retry 99", "has no task 99"),
    ],
)
async def what_is_typed_does_what_the_keys_do(driver: Driver, words: str, said: str) -> None:
    plans(driver).show(replace(some_plan(), is_paused=words == "resume"))
    await driver.type(f"/pipeline {words}")
    await driver.until_shown(said)
    found = plans(driver)
    if words == "PLAN.md":
        await driver.until_shown("commit to main")
        assert not found.begun
        await driver.press("y")
    done = {
        "PLAN.md": lambda: found.begun == ["PLAN.md"] and driver.screen_name == "PipelineList",
        "pause": lambda: found.plans[0].is_paused,
        "resume": lambda: not found.plans[0].is_paused and not found.begun,
        "stop": lambda: found.is_stopped,
        "retry 29": lambda: found.task(29).state is PipelineState.READY,
        "skip 31": lambda: found.task(31).state is PipelineState.SKIPPED,
        "answer 2 A warning.": lambda: found.plans[0].questions[1].answer == "A warning.",
    }
    assert done.get(words, lambda: found.plans == [some_plan()])()


@cases
async def leaving_while_a_plan_is_worked_on_is_asked_and_without_one_commands_say_how_to_begin(driver: Driver) -> None:
    await driver.type("/pipeline pause")
    await driver.until_shown("no plans yet")
    plans(driver).show(some_plan())
    await driver.press("ctrl+q", to="Confirm")
    assert "3 agents are working" in driver.text()


@cases.at(SMALL)
async def hostile_names_are_cleaned(driver: Driver) -> None:
    evil = "a\x1b[2J\x1b]0;x\x07b\u202ec\n" + "漢字" * 60
    spec = TaskSpec(evil, evil, (evil,), (), (evil,), evil)
    attempt = replace(over(1, evil, evil, checks={evil: evil}), model=evil)
    tasks = tuple(
        replace(task(number, "", state, attempt, why=evil), spec=spec) for number, state in enumerate(PipelineState, 1)
    )
    plan = PipelinePlan("p", evil, evil, START, tasks, (OpenQuestion(evil),), problem=evil)
    await opened(driver, plan)
    for key in ("home", "down", "enter"):
        await driver.press(key)
        text = driver.text()
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert all(line.count("漢") < SMALL[0] for line in text.splitlines())


@cases.at((160, 45))
async def a_thousand_tasks_stay_smooth(driver: Driver) -> None:
    await opened(driver, large_plan())
    await driver.press("end")
    view = driver.app.screen.query_one(Table)
    started = thread_time()
    for _ in range(5):
        view.strips.clear()
        for y in range(view.size.height):
            _ = view.render_line(y)
    assert (thread_time() - started) / 5 < 0.1  # 2 to 5 ms are usual
    assert len(driver.app.screen.query("*")) < 25


async def test_what_another_process_changed_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PipelineList, "REFRESH_S", 0.01)
    async with running() as driver:
        await opened(driver, some_plan())
        pipeline, reads = plans(driver), [0]
        read = pipeline.read

        async def counted() -> Sequence[PipelinePlan]:
            reads[0] += 1
            return await read()

        monkeypatch.setattr(pipeline, "read", counted)
        assert pipeline.is_running
        assert pipeline.runner == driver.app.workbench.sessions.run_agent
        await driver.pilot.pause(0.05)
        assert not reads[0], "what this process does is told by itself"
        await pipeline.stop()
        await driver.until(lambda: reads[0] > 1)
